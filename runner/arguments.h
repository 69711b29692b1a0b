// Command lines of the subcommands.
#pragma once

#include <boost/program_options.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/node.h"

namespace attnlab {

using Words = std::vector<std::string>;

/// What every subcommand returns to the shell.
enum ExitCode {
  kDone = 0,
  kRunFailed = 1,
  kUsage = 2,
  kIncomplete = 3,
  kDataMissing = 4,  ///< of `run --dry-run` and `probe`: suites fall back to other data then
  kNoRoom = 5,       ///< memory, address space or threads do not suffice for a start, or it hung
  kInterrupted = 130,
};

/// A parsed command line: options, then words, then key=value overrides.
struct Arguments {
  boost::program_options::variables_map options;
  Words words;      ///< without '='
  Words overrides;  ///< with '='
  bool help = false;

  bool has(const std::string& option) const { return options.count(option) > 0; }
  std::string text(const std::string& option, const std::string& otherwise) const;
};

inline constexpr std::size_t kAnyNumber = static_cast<std::size_t>(-1);

struct Usage {
  std::string synopsis;  ///< "attnlab run EXPERIMENT [key=value ...]"
  std::string about;
  boost::program_options::options_description options{"Options"};
  std::size_t fewest_words = 0, most_words = 0;
  bool takes_overrides = false;
};

/// Whether a word changes a value: "train.epochs=3", "seeds+=[7]". A folder may have '=' in its
/// name too ("runs/vit,lr=0.001"); a key has no slash.
bool is_override(const std::string& word);

/// Thrown by `parse_arguments` instead of parsing when the last word is `kAskUsage`: so completion
/// learns the options of every command from the command itself.
struct UsageAsked {
  Usage usage;
};
inline constexpr const char* kAskUsage = "--ask-usage";

/// Parses; prints the help itself when asked for (then `help` is set).
/// @throws ConfigError for unknown options, for empty paths (value_name DIR, FILE, FOLDER or PATH),
///         and for too few and too many words; UsageAsked.
Arguments parse_arguments(const Words& words, Usage& usage);

/// Commands of a group, by name: `attnlab config show`. Each takes the words after its name.
using Subcommands = std::vector<std::pair<std::string, std::function<int(const Words&)>>>;

/// Runs the command that the first word names; prints the help where that is asked for, or without
/// a word. @returns an exit code. @throws ConfigError for another word.
int run_subcommand(const std::string& group, const char* help, const Words& words,
                   const Subcommands& commands);

/// Declares --out of a command that files runs.
void add_runs_folder(Usage& usage);
/// The folder that --out names, else kRunsFolder.
std::string runs_folder(const Arguments& arguments);

/// "eps=0.1", "group.member=2", ... as one map of a part's options.
/// @param source  what messages call the place they come from
/// @throws ConfigError.
Node options_from(const Words& overrides, const std::string& source = "command line");

}  // namespace attnlab
