#!/usr/bin/perl
# Writes data/unicode_properties.json: the scripts, the binary properties and the names of the general categories that
# \p{..} of a pattern may name, asked of Perl's own tables. Run by the newest Perl at hand:
# perl make_unicode_properties.pl > data/unicode_properties.json
use strict;
use warnings;
use Unicode::UCD qw(prop_aliases prop_invlist prop_invmap prop_value_aliases prop_values);

sub quoted { return '[' . join(',', map { "\"$_\"" } @_) . ']'; }

sub distinct { my %seen; return grep { !$seen{$_}++ } @_; }

sub ranges {
    return quoted(map { $_->[0] == $_->[1] ? sprintf('%X', $_->[0]) : sprintf('%X-%X', @$_) } @_);
}

sub row { return '[' . quoted(@{$_[0]}) . ',' . ranges(@{$_[1]}) . ']'; }

sub binary { # property: its names and its ranges
    my ($property) = @_;
    my @ends = (prop_invlist($property), 0x110000);
    my @ranges;
    for (my $i = 0; $i + 1 < @ends; $i += 2) { push @ranges, [$ends[$i], $ends[$i + 1] - 1]; }
    return row([distinct(reverse prop_aliases($property))], \@ranges);
}

sub scripts {
    my ($starts, $values) = prop_invmap('Script');
    my %of;
    for my $i (0 .. $#$starts) {
        my $end = $i < $#$starts ? $starts->[$i + 1] - 1 : 0x10FFFF;
        push @{$of{$values->[$i]}}, [$starts->[$i], $end] if $values->[$i] ne 'Unknown';
    }
    return map { row([distinct(reverse prop_value_aliases('sc', $_))], $of{$_}) } sort keys %of;
}

sub categories { # the long name first
    return map { quoted(distinct(reverse prop_value_aliases('gc', $_))) } sort(prop_values('gc'));
}

my @binary = qw(Alphabetic Uppercase Lowercase White_Space Emoji Ideographic);
printf "{\"version\":\"%s\",\n\"binary\":[\n%s],\n\"scripts\":[\n%s],\n\"categories\":[\n%s]}\n", Unicode::UCD::UnicodeVersion(),
    join(",\n", map { binary($_) } @binary), join(",\n", scripts()), join(",\n", categories());
