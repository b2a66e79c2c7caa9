"""From a record partition to buckets."""
