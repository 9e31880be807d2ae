"""The session's settings: quiet, bounded, in UTC, nothing in the working directory."""

from __future__ import annotations

from pathlib import Path

from loadgen.jars import connector_installed
from loadgen.session import SessionSettings, session_conf, user_cache_dir


def test_everything_written_lies_in_the_work_directory() -> None:
    conf = session_conf(SessionSettings(), Path("/work-dir"))
    assert conf["spark.local.dir"] == "/work-dir"
    assert conf["spark.sql.warehouse.dir"].startswith("/work-dir/")
    assert "-Dlog4j2.configurationFile=file:///work-dir/log4j2.properties" in conf["spark.driver.extraJavaOptions"]


def test_time_is_utc_and_memory_is_bounded() -> None:
    conf = session_conf(SessionSettings(cores=3, memory_mb=700, shuffle_partitions=5), Path("/w"))
    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert "-Duser.timezone=UTC" in conf["spark.driver.extraJavaOptions"]
    assert (conf["spark.master"], conf["spark.driver.memory"]) == ("local[3]", "700m")
    assert conf["spark.sql.shuffle.partitions"] == "5"
    assert conf["spark.ui.enabled"] == "false"


def test_own_settings_win_and_given_jars_are_used() -> None:
    settings = SessionSettings(jars=(Path("/j/a.jar"), Path("/j/b.jar")), extra={"spark.ui.enabled": "true"})
    conf = session_conf(settings, Path("/w"))
    assert conf["spark.jars"] == "/j/a.jar,/j/b.jar"
    assert conf["spark.ui.enabled"] == "true"


def test_jars_in_sparks_own_directory_are_recognised(tmp_path: Path) -> None:
    assert not connector_installed(tmp_path)
    (tmp_path / "spark-sql-kafka-0-10_2.13-4.2.0.jar").touch()
    assert connector_installed(tmp_path)


def test_the_cache_directory_follows_the_environment() -> None:
    assert user_cache_dir({"XDG_CACHE_HOME": "/c"}) == Path("/c/towpath-loadgen")
