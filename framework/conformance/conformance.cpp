#include "framework/conformance/conformance.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "framework/base/clock.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/conformance/check_table.h"
#include "framework/conformance/checks.h"
#include "framework/host/process_state.h"

namespace attnlab::conformance {
namespace {

constexpr CheckEntry<Fixture> kAttentionEntries[] = {
    {"shapes", check_shapes},
    {"dtypes", check_dtypes},
    {"narrow_sums", check_narrow_sums},
    {"device", check_device},
    {"determinism", check_determinism},
    {"dropout", check_dropout},
    {"save_and_load", check_save_and_load},
    {"strides", check_strides},
    {"batch", check_batch},
    {"members", check_members},
    {"gradients", check_gradients},
    {"second_gradients", check_second_gradients},
    {"refusals", check_refusals},
    {"causality", check_causality},
    {"window", check_window},
    {"pair_mask", check_pair_mask},
    {"padding", check_padding},
    {"ragged", check_ragged},
    {"bias", check_bias},
    {"broadcasting", check_broadcasting},
    {"relative_positions", check_relative_positions},
    {"different_lengths", check_different_lengths},
    {"queries", check_queries},
    {"writing", check_writing},
    {"different_source", check_different_source},
    {"positions", check_positions},
    {"permutation", check_permutation},
    {"empty_rows", check_empty_rows},
    {"state", check_state},
    {"large_logits", check_large_logits},
    {"single_token", check_single_token},
    {"trace", check_trace},
    {"losses", check_losses},
    {"after_step", check_after_step},
    {"linear_cost", check_linear_cost},
    {"inputs_unchanged", check_inputs_unchanged},
    {"process_state", check_process_state},
    {"memory", check_memory},
};

static_assert(lists_agree(kAttentionEntries, kChecks),
              "check_list.h and the functions must name the same checks");

/// The first line of a message: LibTorch's exceptions go on with a stack trace.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void judge(const std::function<std::string()>& check, bool may_refuse, CheckResult& result) {
  const auto ends = [&](Outcome outcome, const std::string& message) {
    result.outcome = outcome;
    result.message = without_backtrace(message);  // checks put what was thrown into theirs
  };
  try {
    ends(Outcome::passed, check());
  } catch (const Failure& failure) {
    ends(Outcome::failed, failure.what());
  } catch (const NotApplicable& reason) {
    ends(Outcome::not_applicable, reason.what());
  } catch (const Skipped& reason) {
    ends(Outcome::skipped, reason.what());
  } catch (const TraitError& refusal) {
    if (may_refuse) {
      ends(Outcome::not_applicable, std::string("refused with these options: ") + refusal.what());
    } else {
      ends(Outcome::failed, std::string("refuses what it declares: ") + refusal.what());
    }
  } catch (const std::exception& error) {
    ends(Outcome::failed, "threw an exception: " + first_line(error.what()));
  } catch (...) {
    ends(Outcome::failed, "threw something that is not a std::exception");
  }
}

}  // namespace

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed:
      return "passed";
    case Outcome::failed:
      return "failed";
    case Outcome::not_applicable:
      return "not applicable";
    default:
      return "skipped";
  }
}

void refuse_check(std::string_view check, std::span<const CheckInfo> infos) {
  std::vector<std::string> names;
  for (const CheckInfo& info : infos) names.emplace_back(info.name);
  throw ConfigError(fmt::format("there is no check '{}'{}", check, suggestion(check, names)));
}

CheckResult judged(std::string_view name, const std::function<std::string()>& check,
                   bool may_refuse) {
  CheckResult result;
  result.check = name;
  const ProcessState before;
  const bool gradients = at::GradMode::is_enabled();
  const auto start = Clock::now();
  const auto checked = [&] {
    std::string remark = check();
    if (name != kProcessState) return remark;
    // Fixtures build before a check looks at the process, and destroy after it.
    std::vector<std::string> changes = before.changes();
    if (at::GradMode::is_enabled() != gradients) changes.emplace_back("autograd's mode");
    expect(changes.empty(),
           "building it, or what it is tried with, changes " + join(changes, " and "));
    return remark;
  };
  judge(checked, may_refuse, result);
  result.seconds = seconds_since(start);
  at::GradMode::set_enabled(gradients);
  before.restore();
  return result;
}

CheckResult run_check(std::string_view check, const Subject& subject) {
  const CheckEntry<Fixture>& entry = find_check(kAttentionEntries, check, kChecks);
  return judged(
      entry.name, [&] { return entry.run(Fixture(subject)); }, subject.may_refuse);
}

std::vector<CheckResult> run_checks(const Subject& subject) {
  std::vector<CheckResult> results;
  for (const CheckInfo& info : kChecks) results.push_back(run_check(info.name, subject));
  return results;
}

}  // namespace attnlab::conformance
