import json

from queries.key_count import build
from towpath.query import render_json, render_mermaid, render_text

PLAN = build(replicas=2).plan()


def test_text_says_what_each_stage_reads_does_keeps_and_writes():
    assert render_text(PLAN) == "\n".join(
        [
            "key_count: bids per auction",
            "  source ×1",
            "    reads   nexmark-events (json): type, auction",
            "    does    filter → require_key → keep → combine",
            "    writes  key_count.source-count (arrow) hash by auction, 8 partitions",
            "  count ×2",
            "    reads   key_count.source-count (arrow): auction",
            "    does    count",
            "    keeps   count (rocksdb)",
            "    writes  key-count (json) hash by auction, 8 partitions",
        ]
    )


def test_json_names_every_stage_and_topic():
    plan = json.loads(render_json(PLAN))
    assert [stage["name"] for stage in plan["stages"]] == ["source", "count"]
    assert plan["stages"][0]["inputs"][0]["columns"] == {"type": "String", "auction": "Int64"}
    assert plan["stages"][1]["tables"] == [{"name": "count", "id": 0}]


def test_mermaid_draws_stages_between_topics():
    lines = render_mermaid(PLAN).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  t1[("key_count.source-count")]' in lines
    assert '  s0 -->|"hash by auction"| t1' in lines
    assert "  t1 --> s1" in lines
