"""One module per kind of hostile input, each with a class `Domain` (see `attacks.domain`)."""
