"""Crews: who gets which item, with members that answer at once and in order."""

from collections import deque

from ddsfl.scale.crew import Crew, Member


class Prompt(Crew):
    """Two members; the one that is given ``deadly`` first is lost with all that waits at it."""

    ahead, n_workers = 1, 2

    def __init__(self, deadly=None):
        super().__init__()
        self.deadly, self.answers, self.waiting_at = deadly, deque(), []

    def _begin(self, make, n_members):
        pass

    def _hire(self):
        return Member()

    def _equip(self, member):
        self.answers.append((member, ("done", None)))

    def _give(self, member, item):
        self.waiting_at.append(len(member.given))
        if item == self.deadly:
            self.deadly = None
            self.answers.append((member, ("lost", "it was killed")))
        else:
            self.answers.append((member, ("done", item)))

    def _hear(self):
        member, answer = self.answers.popleft()
        if answer[0] == "lost":
            self.answers = deque(one for one in self.answers if one[0] is not member)
        return member, answer

    def _dismiss(self, members):
        pass


def test_items_wait_at_members_but_not_towards_the_end():
    for n_items, most in ((20, 2), (4, 1)):
        crew = Prompt()
        assert sorted(outcome.result for outcome in crew.run(None, range(n_items))) == list(range(n_items))
        assert max(crew.waiting_at) == most


def test_what_waited_at_a_lost_member_is_done_by_another():
    crew = Prompt(deadly=0)
    lines = []
    assert sorted(outcome.result for outcome in crew.run(None, range(20), lines.append)) == list(range(20))
    assert lines == ["tried again: it was killed"]
