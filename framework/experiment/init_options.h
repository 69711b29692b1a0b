// `init:` of an experiment: what parameters begin with, instead of random numbers.
#pragma once

#include <string>
#include <vector>

#include "framework/config/options.h"

namespace attnlab {

/// framework/train/initialise.h says how names and shapes are matched.
struct InitOptions {
  std::string from{};
  std::string experiment{};
  std::string configuration{};
  std::string weights = "last";
  std::string map{};
  std::string into{};
  std::vector<std::string> fresh{};
  bool partial = false;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("from", from, "a safetensors file");
    v("experiment", experiment,
      "another experiment, by name or file: its finished run with the same attention and seed");
    v("configuration", configuration,
      "hash of that experiment's configuration; empty: computed from its file and filled in");
    v("weights", weights, one_of("last", "average"),
      "which weights of another experiment's run: the trained ones, or their running mean "
      "(train.average)");
    v("map", map, "rules that rename the file's tensors: a file, or a name in configs/maps");
    v("into", into, "the part of the model that is filled: the prefix of its tensors' names");
    v("fresh", fresh,
      "parameters that keep their random values, even if the file has them: a new head, head.*; * "
      "stands for any text, ? for any character");
    v("partial", partial,
      "skip tensors that fit nowhere, and keep random values where no tensor fits");
  }
};

}  // namespace attnlab
