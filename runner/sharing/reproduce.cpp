// attnlab reproduce: what another lab packed with attnlab suite pack, run again here.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>
#include <tuple>

#include "framework/base/file_lock.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/links.h"
#include "framework/base/revision.h"
#include "framework/base/text.h"
#include "framework/experiment/identity.h"
#include "framework/manifest/discovery.h"
#include "framework/sharing/reproduction.h"
#include "framework/sharing/result_bundle.h"
#include "framework/sharing/result_locks.h"
#include "runner/process.h"
#include "runner/sharing/data_paths.h"
#include "runner/sharing/locked_plugins.h"
#include "runner/sharing/sharing.h"
#include "runner/sharing/workshop.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

void say(const std::string& line) { std::cerr << printable(line) << "\n"; }

/// For people: names in a stranger's configuration may hold anything.
std::string label_of(const RunRecord& run) { return one_line(run.label()); }

/// The runs of a result, by their numbers.
std::vector<RunRecord> packed_runs(const std::string& folder) {
  std::vector<RunRecord> runs;
  for (const std::string& run : search_folders(folder).runs) runs.push_back(read_run(run));
  return runs;
}

/// Of a run without a lock, which the report names, it is empty.
sharing::ResultLocks locks_of(const RunRecord& run) {
  return sharing::read_locks(run.folder).value_or(sharing::ResultLocks());
}

sharing::ResultLocks locks_of(const std::vector<RunRecord>& runs) {
  sharing::ResultLocks all;
  for (const RunRecord& run : runs) {
    sharing::ResultLocks one = locks_of(run);
    all.parts.merge(one.parts);
    all.revisions.merge(one.revisions);
  }
  return all;
}

void say_other_data(const sharing::RunPair& pair) {
  if (pair.other_data) say(label_of(pair.there) + ": its data differ from those there");
  for (const std::string& entry : pair.other_data_of) {
    say(fmt::format("{}: the data of evaluation {} differ from those there", label_of(pair.there),
                    one_line(entry)));
  }
}

/// What a run used that is not what the result's run did; empty: nothing. Plugins may change while
/// runs run.
std::string other_bundle(const RunRecord& there, const RunRecord& here) {
  const sharing::ResultLocks now = locks_of(here);
  for (const sharing::LockedPart& part : locks_of(there).parts) {
    for (const sharing::LockedPart& used : now.parts) {
      const bool same_part = used.kind == part.kind && used.id == part.id;
      if (!same_part || part.bundle.empty() || used.bundle == part.bundle) continue;
      return fmt::format(
          "{} was another bundle while it ran (another attnlab installed it?); "
          "remove {} and repeat the command",
          part.label(), here.folder);
    }
  }
  return "";
}

/// Runs below a folder; none where there is no folder, or no run in it yet.
FoundFolders runs_below(const std::string& folder) {
  try {
    return search_folders(folder);
  } catch (const ConfigError&) {
    return {};
  }
}

/// Folders of finished runs that are there.
std::set<std::string> finished_runs(const std::string& below) {
  std::set<std::string> folders;
  for (const std::string& run : runs_below(below).runs) {
    try {
      if (RunFolder(run).status().finished()) folders.insert(run);
    } catch (const Error&) {  // damaged, which is said when it is read
    }
  }
  return folders;
}

/// Whether a run would be filed by the same plugins and framework now.
bool is_of_now(const RunRecord& run, const Catalogue& catalogue) {
  try {
    const auto filed = read_identity(run.folder);
    const Experiment experiment = RunFolder(run.folder).experiment(catalogue);
    return filed && changes_between(*filed, identity_of(experiment, "")).empty();
  } catch (const Error&) {  // what it used is not here any more
    return false;
  }
}

/// The run that attnlab run has just made or found below a folder. Runs of earlier calls may stand
/// beside it, made with other plugins, data or another attnlab.
/// @param notes  gets what is left out
std::optional<RunRecord> run_of_now(const std::string& folder, std::vector<std::string>& notes) {
  const FoundFolders found = runs_below(folder);
  std::vector<Unreadable> unreadable = found.unreadable;
  std::vector<RunRecord> runs;
  for (const std::string& run : found.runs) {
    try {
      runs.push_back(read_run(run));
    } catch (const Error& damage) {
      unreadable.push_back({run, damage.what()});
    }
  }
  for (const Unreadable& one : unreadable) notes.push_back(message_text(one.text()));
  if (runs.empty()) return std::nullopt;
  if (runs.size() == 1) return runs.front();
  const Catalogue catalogue = Catalogue::of_this_program();
  const auto rank = [&](const RunRecord& run) {
    return std::tuple(is_of_now(run, catalogue), run.status.finished(),
                      RunFolder(run.folder).start());
  };
  return *std::max_element(runs.begin(), runs.end(), [&](const RunRecord& a, const RunRecord& b) {
    return rank(a) < rank(b);
  });
}

/// The experiment that a run begins with (`init.experiment`); empty: none.
std::string source_of(const RunRecord& run) {
  const Node* const init = run.config.is_map() ? run.config.find("init") : nullptr;
  const Node* const source = init != nullptr && init->is_map() ? init->find("experiment") : nullptr;
  return source != nullptr && source->is_scalar() ? source->text() : "";
}

/// Which runs cannot be repeated since they begin with the weights of another one: that is looked
/// for beside them, and here each has a folder of its own.
/// @returns the note on them, if any. @throws ConfigError where those are all.
std::vector<std::string> without_source(const std::vector<RunRecord>& runs) {
  std::vector<std::string> labels;
  const RunRecord* first = nullptr;
  for (const RunRecord& run : runs) {
    if (source_of(run).empty()) continue;
    if (first == nullptr) first = &run;
    labels.push_back(label_of(run));
  }
  if (first == nullptr) return {};
  const std::size_t count = labels.size();
  std::string text = fmt::format(
      "{}: cannot be repeated by this command: it begins with the weights of a finished run of "
      "'{}' (init.experiment), which would have to stand beside it, and here each run has a folder "
      "of its own; by hand, with one DIR: attnlab run (that run's config.yaml) --out DIR, then "
      "attnlab run {}/config.yaml --out DIR",
      first_of(std::move(labels)), one_line(source_of(*first)), first->folder);
  if (count == runs.size()) throw ConfigError(text);
  say(text);
  return {std::move(text)};
}

/// Runs this program for a run of the result. @throws Interrupted.
ProcessResult run_program_for(const std::vector<std::string>& words, const std::string& log) {
  const ProcessResult end = run_self(words, log, [](const std::string&) {});
  if (!interrupted()) return end;
  say("interrupted; the same command goes on where it was");
  throw Interrupted();
}

/// Evaluations that failed, or were killed, in an earlier call: attnlab run leaves them so.
void evaluate_again(RunRecord& run, const std::string& log) {
  const bool all = std::all_of(run.evaluations.begin(), run.evaluations.end(),
                               [](const EvaluationRecord& one) { return one.done; });
  if (!run.done() || all) return;
  say(label_of(run) + ": evaluating again what failed before");
  if (!run_program_for({"eval", run.folder, "--json"}, log).ok()) {
    say(message_text(fmt::format("{}: evaluations failed: {}", label_of(run), log_tail(log, 3))));
  }
  run = read_run(run.folder);
}

/// Runs one run of the result once more, in a folder that has the same number.
/// @param moved  where its data are here
/// @param notes  gets what is left out in that folder
sharing::RunPair run_again(const RunRecord& run, const std::string& out, bool allow_others,
                           const std::vector<MovedPath>& moved, std::vector<std::string>& notes) {
  if (!source_of(run).empty()) return {run, std::nullopt, false, {}};
  say("running " + label_of(run));
  const std::string log = out + "/log.txt",
                    folder = out + "/runs/" + fs::path(run.folder).filename().string();
  // One that was finished before is taken where its plugins' files are those in use now.
  const std::set<std::string> before = finished_runs(folder);
  Words words = {"run", run.folder + "/config.yaml"};
  for (std::string& key : moved_keys(run.config.tree(), moved)) words.push_back(std::move(key));
  words.insert(words.end(), {"--out", folder, "--resume", "--progress", "none"});
  const ProcessResult end = run_program_for(words, log);
  sharing::RunPair pair{run, std::nullopt, false, {}};
  if (!end.ok()) {
    say(message_text(fmt::format("{} failed: {}", label_of(run), log_tail(log, 3))));
    return pair;
  }
  std::optional<RunRecord> here = run_of_now(folder, notes);
  if (!here) return pair;
  const bool was_finished = before.count(here->folder) > 0;
  const std::string other = allow_others || was_finished ? "" : other_bundle(run, *here);
  if (!other.empty()) {
    say(fmt::format("{}: does not count: {}", label_of(run), other));
    return pair;
  }
  try {
    if (was_finished) evaluate_again(*here, log);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& damage) {
    say(message_text(fmt::format("{}: does not count: {}", label_of(run), damage.what())));
    return pair;
  }
  for (EvaluationRecord& one : here->evaluations) {
    one.set =
        with_paths_of_there(std::move(one.set), moved);  // moved data do not change the question
  }
  pair.here = std::move(here);
  sharing::compare_data(pair);
  say_other_data(pair);
  return pair;
}

/// Which data of the other machine the runs read that are not here; empty: none.
std::string missing_paths(const std::vector<RunRecord>& runs, const std::vector<MovedPath>& moved) {
  std::set<std::string> missing;
  for (const RunRecord& run : runs) {
    for (const std::string& folder : data_paths(run.config.tree())) {
      const bool is_moved = std::any_of(moved.begin(), moved.end(), [&](const MovedPath& one) {
        return folder == one.there || folder.starts_with(one.there + "/");
      });
      std::error_code error;
      if (!is_moved && !fs::exists(folder, error)) missing.insert(one_line(folder, 200));
    }
  }
  if (missing.empty()) return "";
  return fmt::format(
      "data of the other machine, not here: {}; where you have them: --data {}=YOURS",
      join({missing.begin(), missing.end()}, ", "), *missing.begin());
}

/// Tries the Python files that the runs keep, each once, as the code of a plugin is tried before it
/// comes into use.
/// @throws TrustError for one that no run names, or that was altered; BundleError where a check
/// fails.
void try_python_files(const std::vector<RunRecord>& runs, const Arguments& arguments) {
  std::set<sharing::SharedClass> classes;
  for (const RunRecord& run : runs) classes.merge(sharing::shared_classes(run.folder));
  if (classes.empty() || arguments.has("no-kit")) return;
  Workshop workshop(workshop_options(arguments));
  const SignalsNoted noted;
  for (const sharing::SharedClass& one : classes) {
    const ScratchFolder scratch;
    say(fmt::format("checking {} with the conformance kit", one_line(one.name, 200)));
    try {
      workshop.test(one.path, scratch.path(), scratch.file("log.txt"), one.options);
    } catch (const sharing::BundleError& error) {
      throw sharing::BundleError(fmt::format(
          "{}: {} (--no-kit leaves this out; --readable DIR shows it a folder with data)", one.path,
          error.what()));
    }
  }
}

/// What differs between the locks and this machine, in the words of the report.
std::vector<std::string> differences(const sharing::ResultLocks& locks, bool allow_others) {
  std::vector<std::string> notes = check_locked_parts(locks, allow_others);
  for (const std::string& revision : locks.revisions) {
    if (revision == framework_revision()) continue;
    notes.push_back(fmt::format(
        "the framework differs: revision {} there, {} here; numbers may differ in last digits, or "
        "more",
        one_line(revision, 20), framework_revision()));
  }
  for (const std::string& note : notes) say(note);
  return notes;
}

Usage reproduce_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab reproduce FILE [--out DIR] [--yes] [--no-kit] [--allow-downgrade]\n"
      "       [--data THERE=HERE]... [--allow-other-bundles] [--time-limit SECONDS] [--jobs N]\n"
      "       [--readable DIR]...";
  usage.about =
      "Runs what another lab packed with attnlab suite pack: installs the plugins that come\n"
      "with it, and tries its Python files (both checked as by attnlab plugin install), runs\n"
      "every configuration, and prints both results side by side, with a verdict by the seeds'\n"
      "spread. The headlines of runs and of their evaluations decide. Finished runs are not run\n"
      "again. If a plugin of yours is replaced by another version meanwhile, it comes back at\n"
      "the end.\n"
      "Exit code 0: all agree; 1: a result differs; 3: some could not be run.";
  usage.options.add_options()("out", po::value<std::string>()->value_name("DIR"),
                              "folder for the runs; default: reproduced/NAME")(
      "data", po::value<Words>()->composing()->value_name("THERE=HERE"),
      "read the data that the other machine has in the folder or file THERE from HERE; may be "
      "repeated")("yes,y", "answer every question with yes")("no-kit", "skip the conformance kit")(
      "allow-downgrade",
      "accept older versions, or other bundles, of plugins that are or were installed")(
      "allow-other-bundles",
      "use plugins as they are installed here, although the runs used other bundles of them");
  add_workshop_options(usage);
  usage.fewest_words = usage.most_words = 1;
  return usage;
}

sharing::Bundle trusted_result(const Arguments& arguments, const sharing::Places& places,
                               sharing::Keyring& keys) {
  sharing::Bundle result = sharing::read_bundle(arguments.words[0]);
  if (result.contents.type != "result") {
    throw ConfigError(fmt::format("{}: holds a plugin, no result; attnlab plugin install FILE",
                                  arguments.words[0]));
  }
  sharing::InstallOptions trust;
  trust.policy = sharing::read_policy(places.policy());
  trust.ask = asker(arguments.has("yes"));
  check_trust(result, keys, trust);
  return result;
}

int report(const std::vector<sharing::RunPair>& pairs, const std::vector<std::string>& notes,
           const std::string& out) {
  const auto failed = std::count_if(pairs.begin(), pairs.end(),
                                    [](const sharing::RunPair& pair) { return !pair.here; });
  const auto all = sharing::compare_results(pairs);
  std::string noted;
  for (const std::string& note : notes) noted += "note: " + note + "\n";
  const std::string path = out + "/reproduction.txt";
  refuse_link(path);
  write_file(path, printable(reproduction_text(all) + noted));
  std::cout << printable(reproduction_text(all, false) + noted + "every metric: " + path + "\n");
  if (failed > 0) {
    say(fmt::format("{} of {} runs could not be repeated; the log: {}/log.txt", failed,
                    pairs.size(), out));
    return kIncomplete;
  }
  const bool agree = std::all_of(all.begin(), all.end(),
                                 [](const auto& one) { return one.agrees() || !one.decides; });
  return agree ? kDone : kRunFailed;
}

}  // namespace

int reproduce_command(const Words& words) {
  Usage usage = reproduce_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::vector<MovedPath> moved =
      parse_moved_paths(arguments.has("data") ? arguments.options["data"].as<Words>() : Words());
  const sharing::Places places = sharing::Places::of_this_user();
  sharing::Keyring keys(places.keys());
  const sharing::Bundle result = trusted_result(arguments, places, keys);
  const std::string out =
      fs::absolute(arguments.text("out", "reproduced/" + result.contents.id.name)).string();
  sharing::make_folder(out);
  const FileLock lock(out + "/lock");
  if (lock.state() == FileLock::State::taken) {
    throw ConfigError(out + ": another process works there; name another folder with --out");
  }
  unpack_result(result, out + "/original");
  const std::vector<RunRecord> there = packed_runs(out + "/original/runs");
  std::vector<std::string> notes = without_source(there);
  const sharing::ResultLocks locks = locks_of(there);
  refuse_plugins_without_lock(result, locks);
  try_python_files(there, arguments);
  const LockedPlugins plugins(result, arguments, places, keys);
  const bool allow_others = arguments.has("allow-other-bundles");
  for (std::string& note : differences(locks, allow_others)) notes.push_back(std::move(note));
  std::vector<sharing::RunPair> pairs;
  const std::string missing = missing_paths(there, moved);
  if (!missing.empty()) say(missing);
  for (const RunRecord& run : there) {
    pairs.push_back(run_again(run, out, allow_others, moved, notes));
  }
  for (std::string& note : sharing::notes_of(pairs)) notes.push_back(std::move(note));
  return report(pairs, notes, out);
}

}  // namespace attnlab
