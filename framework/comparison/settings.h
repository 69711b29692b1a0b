// Points of a sweep or a grid on the same data: settings of one experiment.
//
// Friedman's test takes its blocks for independent draws (Demšar, JMLR 7, 2006: data sets), which
// settings of one experiment on the same data are not: they count as one block.
#pragma once

#include <map>
#include <string>

#include "framework/runs/run_records.h"

namespace attnlab {

/// By experiment, what it is a setting of: "vit,lr=0.001" and "vit,lr=0.01" on the same data both
/// of "vit"; an experiment without other settings of itself. Data are the same where runs of the
/// seed that most points recorded data of have the same fingerprint (a point without that seed:
/// those of its smallest; without any: where the sections `dataset` are equal).
std::map<std::string, std::string> settings_of(const RunCollection& collection);

}  // namespace attnlab
