#!/usr/bin/perl
# Writes data/unicode_nfc.json: what the NFC normalizer must know of Unicode 12.0, the version of the reference's
# normalisation tables, asked of Perl's own tables (any Perl whose Unicode is 12.0 or later; these properties of
# assigned characters never change). Run: perl make_unicode_nfc.pl > data/unicode_nfc.json
use strict;
use warnings;

sub ranges {
    my ($keep) = @_;
    my @out;
    for my $c (0 .. 0x10FFFF) {
        next if $c >= 0xD800 && $c < 0xE000;
        next unless $keep->(chr $c);
        if (@out && $out[-1][1] == $c - 1) { $out[-1][1] = $c; }
        else { push @out, [$c, $c]; }
    }
    return '[' . join(',', map { $_->[0] == $_->[1] ? sprintf('"%X"', $_->[0]) : sprintf('"%X-%X"', @$_) } @out) . ']';
}

printf "{\"assigned\":%s,\n\"nfc_quick_check_no_or_maybe\":%s,\n\"combining\":%s}\n",
    ranges(sub { $_[0] =~ /\p{In=12.0}/ }),
    ranges(sub { $_[0] =~ /\p{In=12.0}/ && $_[0] !~ /\p{NFC_QC=Y}/ }),
    ranges(sub { $_[0] =~ /\p{In=12.0}/ && $_[0] !~ /\p{CCC=0}/ });
