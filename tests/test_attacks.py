"""The harness of `attacks` finds planted faults, and a slice of each kind of hostile input none."""

import pytest
from attacks.domain import found_domains, make_domain
from attacks.fuzz import report
from attacks.harness import Attack, Limits

#: Enough for all clean cases here, also on a busy machine.
LIMITS = Limits(seconds=2, bytes=100_000_000)


def attacked(planted, folder, cases=2, limits=LIMITS):
    return Attack("planted", f"tests.support.planted:{planted}", 0, folder, limits).run(range(cases))


@pytest.mark.parametrize(
    ("planted", "kind", "what"),
    [
        ("Foreign", "error", "KeyError: "),
        ("Broken", "assertion", "AssertionError: NaN in JSON"),
        ("Unknown", "assertion", "AssertionError: attempt returned 'who knows'"),
        ("Waits", "hang", "more than 2 s"),
        ("Works", "hang", "more than 2 s"),
        ("Allocates", "memory", "0.2 GB"),
        ("AllocatesTooMuch", "memory", "Unable to allocate"),
        ("Dies", "died", "SIGSEGV"),
        ("Opens", "opened", "secret.txt"),
        ("OpensThroughALink", "opened", "link.txt"),
        ("OpensOutside", "opened", "/etc/passwd"),
        ("Removes", "opened", "os.remove"),
        ("Starts", "started", "subprocess.Popen"),
        ("Connects", "foreign", "socket."),
    ],
)
def test_a_planted_fault_is_found_and_its_files_are_kept(tmp_path, planted, kind, what):
    tally = attacked(planted, tmp_path, cases=1)
    assert tally.kinds == {kind: 1}
    [same] = tally.findings.values()
    assert what in same[0].what
    assert tally.results == {"finding": 1}
    assert (tmp_path / "planted/0/case/named.txt").is_file()
    assert what in (tmp_path / "planted/0/finding.txt").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["planted"]


@pytest.mark.parametrize("planted", ["Clean", "MayStart"])
def test_nothing_is_found_where_nothing_is_wrong(tmp_path, capfd, planted):
    tally = attacked(planted, tmp_path, cases=12)
    assert tally.findings == {}
    assert set(tally.results) == {"accepted", "refused"}
    assert tally.results.total() == 12
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_cases_go_on_after_a_death_and_equal_findings_are_one(tmp_path):
    tally = attacked("Dies", tmp_path, cases=5)
    assert tally.kinds == {"died": 5}
    assert len(tally.findings) == 1
    assert len(list((tmp_path / "planted").iterdir())) == 3
    lines = report([tally], tmp_path)
    assert lines[1].split()[:5] == ["planted", "5", "0", "0", "5"]
    assert lines[2].startswith("planted 0 (5 alike) died: SIGSEGV")


def test_a_case_depends_on_seed_and_number_alone(tmp_path):
    def told(numbers, seed=0, jobs=1):
        attack = Attack("planted", "tests.support.planted:Tells", seed, tmp_path, LIMITS)
        [same] = attack.run(numbers, jobs).findings.values()
        return {finding.number: finding.what for finding in same}

    together = told(range(8), jobs=2)
    assert len(set(together.values())) == 8
    assert together == told(reversed(range(8)))
    assert told([5]) == {5: together[5]}
    assert told([5], seed=1) != {5: together[5]}


def test_a_domain_that_cannot_be_prepared_says_why(tmp_path):
    with pytest.raises(RuntimeError, match="no attribute 'Nobody'"):
        attacked("Nobody", tmp_path)


@pytest.mark.parametrize("name", found_domains())
def test_each_domain_is_named_as_its_module(name):
    assert make_domain(found_domains()[name]).name == name


#: Cases of the slice: what takes a few seconds.
SLICE = {"images": 200, "models": 100, "archives": 200, "lists": 200, "settings": 150, "commands": 15}


@pytest.mark.slow
@pytest.mark.parametrize("name", found_domains())
def test_a_slice_of_hostile_input_finds_nothing(tmp_path, name):
    tally = Attack(name, found_domains()[name], 0, tmp_path).run(range(SLICE.get(name, 100)))
    assert tally.findings == {}, "\n".join(report([tally], tmp_path))
