"""What a rebalance costs a Faust application: stock ``rocksdb://`` against ``statemgr://``, in one run."""
