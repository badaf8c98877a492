"""Pages as text and tags, without a browser."""

import re
from html.parser import HTMLParser

SECTION = re.compile(r'<section class="part" id="([\w-]+)"')


def sections(page):
    """The source of each section of a report by its address."""
    _, *pieces = SECTION.split(page)
    return dict(zip(pieces[::2], pieces[1::2]))


class Reader(HTMLParser):
    """Collects the tags with their attributes, and the text outside of styles and scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self._texts, self._hidden = [], [], False
        self.feed(page.replace("\N{MINUS SIGN}", "-"))

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._hidden = tag in ("style", "script")

    def handle_endtag(self, tag):
        self._hidden = False

    def handle_data(self, data):
        if not self._hidden:
            self._texts.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self._texts))

    def named(self, name):
        """The attributes of all tags with this class."""
        return [attributes for _, attributes in self.tags if name in (attributes.get("class") or "").split()]
