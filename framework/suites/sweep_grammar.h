// What to vary, as the command line says it.
//
//   lr=1e-4,3e-4                a list
//   x=range(0, 1, 0.25)         0, 0.25, 0.5, 0.75, 1: the end belongs to it, within rounding
//   lr=logspace(1e-4, 1e-1, 4)  1e-4, 1e-3, 1e-2, 1e-1
//   lr=0,logspace(1e-4,1e-2,3)  a list of both
//   zip(a=[1,2], b=[3,4])       side by side: (a=1, b=3), (a=2, b=4)
//   heads=[1,2]                 one value, a list; dim=8: one value
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attnlab {

/// One direction of the grid: keys that change together. `points[i][k]` is the value, as YAML, of
/// `keys[k]` at point i.
struct SweepAxis {
  std::vector<std::string> keys;
  std::vector<std::vector<std::string>> points;
  std::string source;  ///< the argument as it was given
};

struct SweepWords {
  std::vector<SweepAxis> axes;
  std::vector<std::string> fixed;  ///< "key=value", "key+=...": the same at every point
};

/// @throws ConfigError naming the argument, what is wrong with it and how it is written.
SweepWords parse_sweep(const std::vector<std::string>& arguments);

/// One key's values, "1e-4,3e-4" or "range(0, 1, 0.25)", as an axis, also where it is one value.
/// @param source  for messages. @throws ConfigError.
SweepAxis sweep_axis(const std::string& key, const std::string& values, const std::string& source);

/// "0-4,7" and "[0-4,7]" as 0, 1, 2, 3, 4, 7; "[3]" as 3. @throws ConfigError, also for "3", which
/// may mean three seeds.
std::vector<std::int64_t> parse_seeds(const std::string& text);

/// Values of a text: parts at commas outside of brackets, braces, parentheses and quotes, with
/// range() and logspace() written out. @param source  for messages. @throws ConfigError.
std::vector<std::string> sweep_values(const std::string& text, const std::string& source);

}  // namespace attnlab
