"""From a record partition to buckets: the kernel that both engines share."""
