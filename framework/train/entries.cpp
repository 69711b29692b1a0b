#include "framework/train/entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "framework/base/clock.h"
#include "framework/base/error_text.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/experiment/identity.h"
#include "framework/host/working_folder.h"
#include "framework/runs/evaluation_setting.h"
#include "framework/runs/kept_python.h"
#include "framework/runs/lock_file.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/runs/predictions.h"
#include "framework/train/checkpoint.h"
#include "framework/train/environment.h"
#include "framework/train/fitted_file.h"
#include "framework/train/keep_predictions.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHashDigits = 16;  // of evaluation_hash and of a mean's

/// What a result says until it is there, so that a process that dies leaves a reason.
constexpr const char* kBegun = "the process ended during this evaluation";

/// Adds the means over all points of each group to metrics "swap/0.01/accuracy".
void add_means(const std::map<std::string, std::vector<Metrics>>& by_group, Metrics& metrics) {
  for (const auto& [group, points] : by_group) {
    for (const auto& [name, unused] : points.front()) {
      double sum = 0;
      const bool all = std::all_of(points.begin(), points.end(), [&, &key = name](const auto& one) {
        const auto found = one.find(key);
        if (found != one.end()) sum += found->second;
        return found != one.end();
      });
      if (all) {
        metrics[fmt::format("{}/{}", group, name)] = sum / static_cast<double>(points.size());
      }
    }
  }
}

/// The metrics of an entry stand under its name among the run's, and would replace one there.
/// @throws ConfigError for an entry under whose name the run has metrics itself.
void check_names(const BuiltRun& run, const std::vector<EvaluationEntry>& entries) {
  std::vector<std::string> own = {"training/..."};  // of Task::conclude, stated nowhere
  for (const MetricInfo& info : run.task->metrics()) own.push_back(info.name);
  for (const EvaluationEntry& entry : entries) {
    const std::string& name = entry.group.empty() ? entry.name : entry.group;
    for (const std::string& metric : own) {
      if (!metric.starts_with(name + "/")) continue;
      const std::string what = fmt::format(
          "evaluate.{0}: the run's own metrics have names such as '{1}', which results of an entry "
          "'{0}' would take; give the entry another name",
          name, metric);
      const Place& place = entry.set.place();
      throw place.file.empty() ? ConfigError(what) : ConfigError(place, what);
    }
  }
}

/// A file that is about to be written anew, to be put back as it was.
class FileBefore {
 public:
  explicit FileBefore(const std::string& path) : path_(path) {
    std::error_code error;
    time_ = fs::last_write_time(path, error);
    if (!error) text_ = read_text(path);
  }

  void put_back() const {
    std::error_code ignored;
    if (!text_) {
      fs::remove(path_, ignored);
      return;
    }
    write_file(path_, *text_);
    fs::last_write_time(path_, time_, ignored);  // by it, results of an earlier version are ordered
  }

 private:
  std::string path_;
  std::optional<std::string> text_;  ///< empty: there was none
  fs::file_time_type time_;
};

/// One call of `evaluate_entries`.
class Work {
 public:
  Work(const BuiltRun& run, const RunFolder& folder, Registry& registry,
       const std::atomic<bool>& stop, const OnResult& on_result)
      : run_(run),
        folder_(folder),
        registry_(registry),
        stop_(stop),
        on_result_(on_result),
        weights_file_(weights_file(run.experiment, folder)),
        weights_hash_(file_hash(weights_file_)),
        changes_(changes_for_results(run, folder)) {
    const Evaluations there = read_evaluations(folder.path());
    for (const EvaluationRecord& record : there.records) known_[record.entry] = record;
  }

  void run(std::vector<EvaluationEntry> entries, bool again) {
    std::stable_partition(entries.begin(), entries.end(), [&](const EvaluationEntry& entry) {
      const auto found = known_.find(entry.name);
      return found == known_.end() || found->second.done;
    });
    for (const EvaluationEntry& entry : entries) {
      if (stop_) throw Interrupted();
      evaluate(entry, again);
    }
  }

  /// The mean over a group, where all of its points have results of the settings they have now.
  void add_mean(const std::vector<EvaluationEntry>& entries, const std::string& group) {
    EvaluationRecord mean;
    mean.entry = group;
    std::map<std::string, std::vector<Metrics>> points;
    std::vector<EvaluationRecord> records;
    std::int64_t failed = 0, last = 0;  // when the newest of them was written
    for (const EvaluationEntry& entry : entries) {
      if (entry.group != group) continue;
      const auto found = known_.find(entry.name);
      if (found == known_.end() || !is_of(found->second, entry)) return forget(group);
      const EvaluationRecord& record = found->second;
      records.push_back(record);
      if (!record.done) ++failed;
      points[""].push_back(record.metrics);
      mean.split = record.split;
      mean.weights = entry.options.weights;
      if (record.done) mean.infos = record.infos;
      for (const std::string& change : record.changes) {
        auto& all = mean.changes;
        if (std::find(all.begin(), all.end(), change) == all.end()) all.push_back(change);
      }
      mean.seconds += record.seconds;
      last = std::max(last, record.written);
    }
    mean.hash = mean_hash(records);
    mean.set = mean_set(records);
    mean.done = failed == 0;
    if (mean.done) {
      Metrics sums;
      add_means(points, sums);
      for (const auto& [name, value] : sums) mean.metrics[name.substr(1)] = value;
    } else {
      mean.reason = fmt::format("{} of {} evaluations failed", failed, points[""].size());
    }
    const auto before = known_.find(group);
    // A point evaluated again keeps its hash, also where the process ended before its mean was due.
    const bool was_there = before != known_.end() && before->second.hash == mean.hash &&
                           before->second.done == mean.done && before->second.written > last;
    mean.written =
        written_after(before == known_.end() ? last : std::max(last, before->second.written));
    if (!was_there) write_evaluation(folder_.path(), mean);
    on_result_(mean, was_there);
  }

 private:
  using Known = std::map<std::string, EvaluationRecord>;

  void evaluate(const EvaluationEntry& entry, bool again) {
    const auto before = known_.find(entry.name);
    EvaluationRecord record;
    record.entry = entry.name;
    record.split = entry.options.split;
    record.weights = entry.options.weights;
    record.set = canonical_text(entry.set);
    record.changes = changes_;
    const EvaluationSetting setting{canonical_text(entry.experiment.resolved.at("task")),
                                    run_.seed};
    record.written = after(before);
    record.reason = kBegun;
    record.hash = evaluation_hash(entry, weights_hash_, "");
    const std::string first = record.hash;
    const Clock::time_point begin = Clock::now();
    bool kept = false;  // a result that is there stays until there is another
    std::optional<FileBefore> file;
    try {
      const WorkingFolder home;  // results are filed after a failure, too
      const std::shared_ptr<Dataset> dataset = data_of_entry(run_, entry, registry_);
      const std::string& data = dataset->info().fingerprint;
      record.hash = evaluation_hash(entry, weights_hash_, data);
      // Where they do not fit, an earlier result of them is wrong, too.
      check_data_fits(run_, entry, *dataset, registry_);
      kept = before != known_.end() && before->second.done && before->second.hash == record.hash;
      if (kept && !again) {
        lock_evaluation(folder_.path(), entry, data);  // an earlier attnlab did not
        return on_result_(before->second, true);
      }
      if (!kept) {
        file.emplace(folder_.file(evaluation_file(entry.name, record.hash)));
        write_evaluation(folder_.path(), record, setting);
      }
      keep_python_files(entry.experiment, folder_.path());
      BuiltRun overlay = overlaid(run_, entry, registry_, dataset);
      take_weights(overlay, run_, entry, weights(), weights_file_);
      record.infos = overlay.task->metrics();
      const std::string fitted_path = folder_.file(fitted_file(entry.name, record.hash));
      Fitted fitted{read_fitted(fitted_path, record.hash), {}};
      const bool anew = fitted.saved.size() == 0;
      record.metrics = evaluate_overlay(overlay, entry, stop_, &fitted);
      if (anew && fitted.saved.size() > 0) write_fitted(fitted_path, record.hash, fitted.saved);
      lock_evaluation(folder_.path(), entry, data);
      if (entry.options.predictions) {
        record.predictions = keep_predictions(
            overlay, entry, folder_.file(predictions_file(entry.name, record.hash)), stop_, fitted);
      }
      record.done = true;
      record.reason.clear();
    } catch (const Interrupted&) {
      if (file) file->put_back();
      throw;
    } catch (const std::exception& error) {
      record.reason = text_of(error);
    } catch (...) {  // of a plugin
      record.reason = kNoException;
    }
    if (!record.done) record.metrics.clear();  // its lock could not be written, say
    // (Data that could not be opened may be those of the earlier result.)
    if (!record.done && (kept || (record.hash == first && is_good(before, entry)))) {
      if (file) file->put_back();  // of data without a fingerprint
      const std::string why = one_line(without_backtrace(record.reason), kLongestLine - 40);
      record.reason = why + "; the earlier result stays";
      return on_result_(record, false);
    }
    record.seconds = seconds_since(begin);
    write_evaluation(folder_.path(), record, setting);
    if (record.hash != first) remove(entry.name, first);  // it failed before its data were open
    known_[entry.name] = record;
    on_result_(record, false);
  }

  /// Whether a result has the entry's settings, and is of these weights.
  bool is_of(const EvaluationRecord& record, const EvaluationEntry& entry) const {
    return record.hash.starts_with(evaluation_hash(entry, weights_hash_));
  }

  /// Means of earlier calls whose points are others now.
  void forget(const std::string& group) {
    if (known_.erase(group) == 0) return;
    const fs::path like = folder_.file(evaluation_file(group, std::string(kHashDigits, '0')));
    const std::string name = like.filename().string();
    const std::string beginning = name.substr(0, name.size() - kHashDigits - 5);  // ".json"
    std::error_code error;
    std::vector<fs::path> means;
    fs::directory_iterator at(like.parent_path(), error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
      const std::string other = at->path().filename().string();
      if (other.size() == name.size() && other.starts_with(beginning)) means.push_back(at->path());
    }
    for (const fs::path& mean : means) fs::remove(mean, error);
  }

  bool is_good(Known::const_iterator before, const EvaluationEntry& entry) const {
    return before != known_.end() && before->second.done && is_of(before->second, entry);
  }

  std::int64_t after(Known::const_iterator before) const {
    return written_after(before == known_.end() ? 0 : before->second.written);
  }

  void remove(const std::string& entry, const std::string& hash) const {
    std::error_code ignored;
    fs::remove(folder_.file(evaluation_file(entry, hash)), ignored);
  }

  const NamedTensors& weights() {
    if (weights_.size() == 0) weights_ = read_sealed(weights_file_).tensors;
    return weights_;
  }

  const BuiltRun& run_;
  const RunFolder& folder_;
  Registry& registry_;
  const std::atomic<bool>& stop_;
  const OnResult& on_result_;
  const std::string weights_file_, weights_hash_;
  const std::vector<std::string> changes_;  // since the run began
  NamedTensors weights_;
  Known known_;
};

/// Whether an entry fails in all processes, so that all leave it out. Calls of others would not fit
/// those of one that went on by itself.
bool fails_in_all(World& world, const EvaluationEntry& entry, const std::exception& error) {
  if (world.size() == 1 || dynamic_cast<const AgreedError*>(&error) != nullptr) return true;
  // Those that wait for it in `gather_made` take this for what failed there.
  const std::string beginning = fmt::format("-evaluation '{}': ", entry.name);
  const std::vector<std::string> said = world.gather(beginning + text_of(error));
  return std::all_of(said.begin(), said.end(),
                     [&](const std::string& text) { return text.starts_with(beginning); });
}

}  // namespace

std::vector<EvaluationEntry> chosen_entries(const std::vector<EvaluationEntry>& entries,
                                            const std::vector<std::string>& names) {
  if (names.empty()) return entries;
  std::vector<std::string> known = {kClean};
  for (const EvaluationEntry& entry : entries) {
    known.push_back(entry.name);
    if (!entry.group.empty()) known.push_back(entry.group);
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw ConfigError(fmt::format("there is no evaluation '{}'{}", name, suggestion(name, known)));
  }
  std::vector<EvaluationEntry> out;
  for (const EvaluationEntry& entry : entries) {
    const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name == entry.name || name == entry.group;
    });
    if (named) out.push_back(entry);
  }
  return out;
}

EachEvaluations::EachEvaluations(const BuiltRun& run, const std::vector<EvaluationEntry>& entries,
                                 Registry& registry) {
  for (const EvaluationEntry& entry : entries) {
    if (entry.each()) all_.push_back({entry, overlaid(run, entry, registry)});
  }
}

void EachEvaluations::visit(
    const std::function<void(const std::string&, const BuiltRun&)>& use) const {
  for (const One& one : all_) use(one.entry.name, one.overlay);
}

std::vector<MetricInfo> EachEvaluations::metrics() const {
  std::vector<MetricInfo> all;
  for (const One& one : all_) {
    for (const std::string& name : {one.entry.name, one.entry.group}) {
      if (name.empty()) continue;
      for (MetricInfo info : one.overlay.task->metrics()) {
        info.name = fmt::format("{}/{}", name, info.name);
        all.push_back(std::move(info));
      }
    }
  }
  return all;
}

Metrics EachEvaluations::evaluate(const BuiltRun& run, Split split, const NamedTensors& average,
                                  const std::atomic<bool>& stop,
                                  const std::function<void(const std::string&)>& complain) {
  Metrics metrics;
  std::map<std::string, std::vector<Metrics>> by_group;
  for (One& one : all_) {
    if (one.entry.options.split != name_of(split)) continue;
    try {
      take_weights(one.overlay, run, one.entry, one.entry.average() ? average : live_weights(run),
                   "training");
      one.overlay.world = run.world;
      const Metrics found = evaluate_overlay(one.overlay, one.entry, stop);
      for (const auto& [name, value] : found) {
        metrics[fmt::format("{}/{}", one.entry.name, name)] = value;
      }
      if (!one.entry.group.empty()) by_group[one.entry.group].push_back(found);
    } catch (const Interrupted&) {
      throw;
    } catch (const WorldError&) {
      throw;
    } catch (const std::exception& error) {
      if (!fails_in_all(*run.world, one.entry, error)) throw;
      one.overlay.model->train();
      one.overlay.task->train();
      if (!one.complained) {
        complain(fmt::format("evaluation '{}': {}", one.entry.name,
                             one_line(without_backtrace(text_of(error)))));
      }
      one.complained = true;
    }
  }
  std::erase_if(by_group, [&](const auto& group) {
    return std::count_if(all_.begin(), all_.end(), [&](const One& one) {
             return one.entry.group == group.first;
           }) != static_cast<std::ptrdiff_t>(group.second.size());
  });
  add_means(by_group, metrics);
  return metrics;
}

std::shared_ptr<EachEvaluations> each_evaluations(const BuiltRun& run, Registry& registry) {
  const std::vector<EvaluationEntry> entries = evaluations_of(run.experiment, registry.catalogue());
  check_names(run, entries);
  const bool any = std::any_of(entries.begin(), entries.end(),
                               [](const EvaluationEntry& entry) { return entry.each(); });
  return any ? std::make_shared<EachEvaluations>(run, entries, registry) : nullptr;
}

void evaluate_entries(const BuiltRun& run, const RunFolder& folder,
                      const std::vector<EvaluationEntry>& entries, const EntriesRequest& request,
                      Registry& registry, const std::atomic<bool>& stop,
                      const OnResult& on_result) {
  const std::vector<EvaluationEntry> some = chosen_entries(entries, request.names);
  if (some.empty()) return;
  check_names(run, some);
  lock_entries(folder.path(), some);
  Work work(run, folder, registry, stop, on_result);
  work.run(some, request.again);
  std::vector<std::string> groups;
  for (const EvaluationEntry& entry : some) {
    const bool seen = std::find(groups.begin(), groups.end(), entry.group) != groups.end();
    if (!entry.group.empty() && !seen) groups.push_back(entry.group);
  }
  for (const std::string& group : groups) work.add_mean(entries, group);
}

}  // namespace attnlab
