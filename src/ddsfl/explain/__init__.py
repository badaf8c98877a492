"""Why an image got its score: exact evidence, place by place."""
