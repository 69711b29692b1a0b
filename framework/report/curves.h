// What runs wrote while they trained, over the runs of a slice: curves with few enough points to
// draw.
//
// Steps are put into buckets of equal width; within a bucket each seed's values are averaged first,
// then the seeds. With as many buckets as steps that is mean and deviation at each logged step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/json.h"
#include "framework/report/slices.h"
#include "framework/runs/run_records.h"

namespace attnlab {

/// One number of metrics.jsonl over steps, of one slice and attention.
struct Curve {
  std::string experiment;  ///< the name of the slice: an experiment, or points of a grid
  std::string attention;
  std::string split;   ///< "train", "validation", "test", "trace"
  std::string metric;  ///< "loss", "accuracy", "logit_max"
  std::string layer;   ///< of a trace: "0", or "0 call 1" of a layer's second call; else empty
  std::vector<double> steps;
  std::vector<double> mean;         ///< over seeds; one value a step
  std::vector<double> deviation;    ///< sample deviation; 0 for one seed
  std::vector<std::int64_t> seeds;  ///< how many have a finite value there
};

/// The name of a layer's call: "0" for the first, "0 call 1" for the second; empty below 0.
std::string layer_name(std::int64_t layer, std::int64_t call);

/// The text of a run's metrics.jsonl; empty if the file is missing or unreadable.
std::string read_log(const std::string& run_folder);

/// One of its lines; discarded where that is not JSON, or longer than 16 MiB.
nlohmann::json parsed_line(const std::string& line);

/// How many points curves have at most.
struct CurveBudget {
  std::size_t most_points = 300;    ///< of one curve
  std::size_t most_values = 80000;  ///< of all curves together, and of all traces
  std::size_t fewest_points = 24;   ///< of one curve, whatever the number of curves
};

/// Means and deviations are over all runs of a slice and attention: the seeds of an experiment, and
/// of a grid the points, too.
/// Lines that are cut off or not finite are left out: a run may have been killed while it wrote.
std::vector<Curve> curves_of(const std::vector<RunRecord>& runs, const std::vector<Slice>& slices,
                             const CurveBudget& budget = {});

}  // namespace attnlab
