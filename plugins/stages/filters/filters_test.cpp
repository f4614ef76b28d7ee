int unused_until_written;
