# Added to the client of Redis's suite. The settings in ::omitted_settings are not sent: `run` takes
# them from `skipped`, where each has its reason. The server would refuse them, and with them a whole
# unit that sets one of them at its start.
rename ::redis::__dispatch__raw__ ::redis::__dispatch__sent__
proc ::redis::__dispatch__raw__ {id method argv} {
    if {[string equal -nocase $method config] && [string equal -nocase [lindex $argv 0] set]
        && [string tolower [lindex $argv 1]] in $::omitted_settings && $::redis::blocking($id)
        && !$::redis::deferred($id)} {
        return OK
    }
    ::redis::__dispatch__sent__ $id $method $argv
}
