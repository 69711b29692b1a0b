// What the timed programs share: they read "steps N" and answer with a JSON list of N times in
// seconds; "quit" ends them.
#pragma once

#include <stdlib.h>

#include <boost/program_options.hpp>
#include <cstdint>
#include <iostream>
#include <string>

#include "framework/base/json.h"
#include "framework/tensor/device.h"

namespace attnlab::bench {

/// Reads the command line into the variables that the options are bound to. --help ends the
/// program.
inline void read_options(int argc, char** argv,
                         const boost::program_options::options_description& all) {
  boost::program_options::variables_map values;
  boost::program_options::store(boost::program_options::parse_command_line(argc, argv, all),
                                values);
  boost::program_options::notify(values);
  if (values.count("help") == 0) return;
  std::cout << all;
  std::exit(0);
}

/// Sets up the process as `attnlab run` does. @param threads  of LibTorch, and of what prepares
/// data
/// (`in_parallel`, which asks the environment); 0: all cores
inline void prepare(std::int64_t threads) {
  if (threads > 0) ::setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  use_widest_vectors();
  use_threads(threads);
  keep_freed_memory();
  at::manual_seed(0);
}

/// Reads how many steps are asked for, and answers.
/// @param seconds  does one step and gives its time.
template <class Step>
void answer_one(const Step& seconds) {
  std::int64_t count = 0;
  std::cin >> count;
  nlohmann::json times = nlohmann::json::array();
  for (std::int64_t i = 0; i < count; ++i) times.push_back(seconds());
  std::cout << times.dump() << std::endl;
}

/// @param seconds  as `answer_one` has it
template <class Step>
void answer(const Step& seconds) {
  for (std::string word; std::cin >> word && word == "steps";) answer_one(seconds);
}

}  // namespace attnlab::bench
