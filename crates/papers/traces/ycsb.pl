# Commands of YCSB's workload F for Redis: records of ten fields of 100 letters, then as many reads as
# changes of a field after a read, of records by a Zipf law.
my ($records, $operations) = @ARGV;
my $x = 1;
sub random { $x = $x * 48271 % 2147483647; return $x / 2147483647 }
my @below = (0);
push @below, $below[-1] + $_ ** -0.99 for 1 .. $records;
# Popular records lie anywhere.
sub record {
    my ($point, $low, $high) = (random() * $below[-1], 0, $records - 1);
    while ($low < $high) {
        my $middle = int(($low + $high + 1) / 2);
        if ($below[$middle] <= $point) { $low = $middle } else { $high = $middle - 1 }
    }
    return "user" . $low * 7919 % $records;
}
sub value { return join "", map { chr 97 + 26 * random() } 1 .. 100 }
if ($operations == 0) {
    for my $record (0 .. $records - 1) {
        print "HSET user$record ", join(" ", map { "field$_ " . value() } 0 .. 9), "\n";
        print "ZADD _indices ", random(), " user$record\n";
    }
}
for (1 .. $operations) {
    my $key = record();
    print "HGETALL $key\n";
    print "HSET $key field", int(10 * random()), " ", value(), "\n" if $_ % 2;
}
