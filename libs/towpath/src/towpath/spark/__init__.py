"""Queries on Apache Spark: the same definition, planned a second time.

::

    Graph ──▶ judge (pure: what runs, how, and why not) ──▶ lower (DataFrames) ──▶ run (Kafka, sinks)
              no PySpark, no JVM                             steps one by one

:mod:`towpath.spark.judge` needs no PySpark; the other modules import it, and are imported when a query runs.
"""
