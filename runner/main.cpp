// attnlab: the program. Subcommands one file each; no science here.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <new>
#include <string>

#include "framework/base/error.h"
#include "framework/base/error_text.h"
#include "framework/base/foreign_text.h"
#include "framework/base/limits.h"
#include "framework/base/printable_stream.h"
#include "framework/base/revision.h"
#include "framework/base/text.h"
#include "framework/manifest/discovery.h"
#include "runner/commands.h"
#include "runner/fork_server.h"
#include "runner/load_engine.h"
#include "runner/sharing_command.h"

namespace attnlab {
namespace {

constexpr const char* kHelp = R"(attnlab: compare attention mechanisms across domains
usage: attnlab COMMAND ...

Explore
  list [KIND]                   plugins: attentions, models, tasks, datasets
  describe ID                   a plugin's options, inputs and outputs
  data show EXPERIMENT          a picture of what the model sees, with labels
  doctor                        check this machine: what is wrong, what helps

Write and check an experiment
  init [DIR]                    a small project: experiment, suite, README
  validate FILE ...             check experiments and suites, run nothing
  config show FILE              an experiment with every value filled in
  config explain FILE [KEY]     every place that set or changed a value
  config diff A B               what differs between two configurations
  config schema [KIND]          a JSON Schema of experiments, for editors
  completion bash|zsh|fish      completion of commands in that shell

Train and compare
  run EXPERIMENT                train and evaluate
  suite SUITE                   run a comparison and print its table
  sweep EXPERIMENT key=a,b      run an experiment over a grid of values
  status DIR                    progress of the runs of a suite or sweep
  compare DIR ...               do attentions differ: means, tests, ranks
  power DIR --difference D      how many seeds a difference needs

Publish results
  report DIR ...                a page, a paper's table or records of runs
  page DIR ...                  each attention in every domain, on one page
  card ID                       a model card: equation, traits, results
  cite DIR                      BibTeX of everything that runs used
  runs store DIR ... --to DIR   results of finished runs, to use them again

Use a trained run
  eval RUN_DIR [ENTRY ...]      evaluate it again, also on other data
  sample RUN_DIR                generate text with a language model
  detect RUN_DIR --image FILE   detect objects in your pictures
  segment RUN_DIR --image FILE  a class for each pixel of your picture
  show RUN_DIR                  test examples with answers, for the report

Study an attention
  bench attention [ID ...]      time and memory, as ratios to standard attention
  study snr                     signal-to-noise ratio of the output
  attention apply --use ID      apply one attention to the tensors of a file

Write a plugin
  new KIND NAME                 a folder to start your own plugin
  plugin test ID|PATH           check a plugin against its contract

Share with other labs
  plugin pack FOLDER            one file that another lab can install
  plugin install NAME|FILE|URL  install plugins of other labs, checked
  plugin upgrade [NAME ...]     newer versions from the added indices
  plugin remove NAME ...        remove installed plugins
  plugin rollback NAME ...      go back to the version before
  plugin verify [NAME ...]      are installed plugins unchanged?
  plugin rebuild [NAME ...]     build again after an update
  plugin search WORD            find bundles in the added indices
  key new LAB                   a key to sign what your lab publishes
  key add FILE|KEY              trust another lab's key
  key list                      keys that are known here
  key revoke KEY-ID|FILE        stop trusting a key
  index make FOLDER             publish a folder of bundles
  index add URL|FOLDER          search and install from a lab's index
  index update                  get newer copies of all indices
  index list                    indices that were added
  index remove URL|FOLDER       forget an index
  suite pack DIR                results in one file that another lab can repeat
  reproduce FILE                run another lab's results here, and compare

`attnlab help COMMAND` tells more; `attnlab version` shows the build.
Exit codes: 0 done, 1 a run failed, 2 usage or configuration, 3 not complete
(suite, reproduce, runs store), 4 data missing (run --dry-run, probe), 5 too
little memory or too few threads to start, 130 interrupted.
)";

/// @throws PluginError where the library carries no stamp.
std::string version_text() {
  const Stamp built = read_stamp(Installation::of_this_program().library());
  const std::string& cuda = built.at("cuda");
  return fmt::format(
      "attnlab {}\nframework revision {}, contract {}\nLibTorch {}, {}\n{}, build {}\n",
      ATTNLAB_VERSION, framework_revision(), built.at("contract"), built.at("libtorch"),
      cuda.empty() ? "without CUDA" : "CUDA " + cuda, built.at("compiler"), built.at("build"));
}

}  // namespace

const char* program_help() { return kHelp; }

int dispatch(const std::string& command, const Words& rest) {
  using Command = std::function<int(const Words&)>;
  const std::map<std::string, Command> commands = {
      {"list", list_command},
      {"describe", describe_command},
      {"doctor", doctor_command},
      {"init", init_command},
      {"validate", validate_command},
      {"config", config_command},
      {"completion", completion_command},
      {"suite", suite_command},
      {"sweep", sweep_command},
      {"status", status_command},
      {"compare", compare_command},
      {"power", power_command},
      {"report", report_command},
      {"page", page_command},
      {"card", card_command},
      {"runs", runs_command},
      {"attention", attention_command},
      {"data", data_command},
      {"plugin", plugin_command},
      {"slurm-task", slurm_task_command},
      {"new", new_command},
      {"cite", cite_command},
      {"key", [](const Words& words) { return sharing_command("key", words); }},
      {"index", [](const Words& words) { return sharing_command("index", words); }},
      {"reproduce", [](const Words& words) { return sharing_command("reproduce", words); }},
      {"run", run_in_processes},
      {"eval", [](const Words& words) { return engine_command("eval", words); }},
      {"sample", [](const Words& words) { return engine_command("sample", words); }},
      {"detect", [](const Words& words) { return engine_command("detect", words); }},
      {"segment", [](const Words& words) { return engine_command("segment", words); }},
      {"show", [](const Words& words) { return engine_command("show", words); }},
      {"probe", [](const Words& words) { return engine_command("probe", words); }},
      {"match", [](const Words& words) { return engine_command("match", words); }},
      {"bench", [](const Words& words) { return engine_command("bench", words); }},
      {"study", [](const Words& words) { return engine_command("study", words); }},
  };
  const auto found = commands.find(command);
  if (found != commands.end()) return found->second(rest);
  std::vector<std::string> names;
  for (const auto& [name, unused] : commands) names.push_back(name);
  throw ConfigError(fmt::format("unknown command '{}'{}", command, suggestion(command, names)));
}

namespace {

void complain(const std::string& command, const std::string& what) {
  std::cerr << fmt::format("attnlab {}: {}\n", one_line(command), message_text(what));
}

int answer(const Words& words) {
  const auto asks = [&](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), words[0]) != names.end();
  };
  const bool wants_help = !words.empty() && asks({"--help", "-h", "help"});
  if (words.empty() || (wants_help && words.size() == 1)) {
    std::cout << kHelp;
    return words.empty() ? kUsage : kDone;
  }
  try {
    if (wants_help) {  // "help run" is "run --help"
      Words rest(words.begin() + 2, words.end());
      rest.emplace_back("--help");
      return dispatch(words[1], rest);
    }
    if (asks({"--version", "-V", "version"})) {
      std::cout << version_text();
      return kDone;
    }
    return dispatch(words[0], Words(words.begin() + 1, words.end()));
  } catch (const Interrupted&) {  // it was asked for, and is not an error
    return kInterrupted;
  } catch (const LimitError& error) {
    complain(words[0], error.what());
    return kNoRoom;
  } catch (const Error& error) {
    complain(words[0], error.what());
    return kUsage;
  } catch (const std::exception& error) {
    complain(words[0], text_of(error));
  } catch (...) {  // of a plugin
    complain(words[0], kNoException);
  }
  return kRunFailed;
}

}  // namespace

int run_program(const Words& words) {
  // Whatever a command prints: names of files, plugins' words and stored logs are foreign.
  const PrintableStream out(std::cout), err(std::cerr);
  const int code = answer(words);
  // What is printed may wait in a buffer until here: only now is it known to have arrived.
  // (Progress empties the buffer with each line; then only the error that it met is left.)
  const bool flushed = std::cout.flush().good() && std::fflush(stdout) == 0;
  const bool written = flushed && std::ferror(stdout) == 0;
  if (written || code != kDone) return code;
  std::cerr
      << "attnlab: standard output: cannot write (a full disk, or closed?); the output is lost\n";
  return kRunFailed;
}

}  // namespace attnlab

namespace {

std::terminate_handler usual_end = std::abort;

/// In the place of standard streams that are closed: the next file that is opened would take their
/// number, and what is printed would go into it. What is written here fails.
void open_closed_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    if (::open("/dev/null", O_RDONLY) != stream) std::abort();  // the lowest free number is taken
  }
}

/// With the limits, where there is memory enough to find them out.
void say_no_memory(const std::bad_alloc& error) {
  std::string text;
  const char* words = "attnlab: out of memory; raise the limit (ulimit -v, ulimit -d)\n";
  try {
    text = "attnlab: " + attnlab::text_of(error) + "\n";
    words = text.c_str();
  } catch (const std::bad_alloc&) {  // the words above, then
  }
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, words, std::strlen(words));
}

/// Memory may also run out where C++ allows no exception: in a destructor, or in a library that is
/// being loaded. That ends the program, too, but with words.
[[noreturn]] void end_with_words() {
  if (std::current_exception() != nullptr) {
    try {
      throw;
    } catch (const std::bad_alloc& error) {
      say_no_memory(error);
      ::_exit(attnlab::kNoRoom);
    } catch (...) {
      usual_end();
    }
  }
  usual_end();
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  open_closed_streams();
  usual_end = std::set_terminate(end_with_words);
  std::signal(SIGCHLD, SIG_DFL);  // ignored, how children end would not be known
  // A reader that left, and a limit of file sizes, are errors of writing, not the end of a run.
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  attnlab::Words words(argv + 1, argv + argc);
  if (attnlab::is_fork_server(words)) {
    words = attnlab::words_of_job({argv, static_cast<std::size_t>(argc)}, [] {
      attnlab::load_engine(attnlab::Installation::of_this_program().engine());
    });
  }
  return attnlab::run_program(words);
}
