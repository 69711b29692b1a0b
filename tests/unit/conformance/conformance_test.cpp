// The conformance kit passes what is sound; what becomes of refusals and exceptions.
#include <set>

#include "tests/support/message_of.h"
#include "tests/unit/conformance/sound_outcome.h"
#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance::conformance_test {
namespace {

using attnlab::testing::says;

std::string story(const std::vector<CheckResult>& results) {
  std::string text;
  for (const CheckResult& result : results) {
    text +=
        result.check + ": " + std::string(name_of(result.outcome)) + ": " + result.message + "\n";
  }
  return text;
}

TEST(ConformanceKit, PassesSoundAttention) {
  const std::vector<CheckResult> results = run_checks(subject(sound));
  ASSERT_EQ(results.size(), std::size(kChecks));
  for (const CheckResult& result : results) {
    if (result.check == "linear_cost") {
      EXPECT_EQ(result.outcome, Outcome::not_applicable);
      EXPECT_EQ(result.message, "trait 'linear_cost' is not declared");
    } else if (result.check != "device") {
      // It adds no losses of its own.
      const Outcome sound = result.check == "losses" ? Outcome::not_applicable
                                                     : testing::outcome_of_sound(result.check);
      EXPECT_EQ(result.outcome, sound) << story({result});
    }
    EXPECT_GT(result.seconds, 0) << result.check;
  }
}

TEST(ConformanceKit, DoesNotApplyTraitsThatAreNotDeclared) {
  std::set<std::string> not_applicable;
  for (const CheckResult& result : run_checks(subject(sound, AttentionTraits{}))) {
    if (result.outcome == Outcome::not_applicable) not_applicable.insert(result.check);
    EXPECT_NE(result.outcome, Outcome::failed) << story({result});
  }
  const std::set<std::string> expected = {"bias",
                                          "broadcasting",
                                          "causality",
                                          "different_lengths",
                                          "different_source",
                                          "empty_rows",
                                          "linear_cost",
                                          "losses",
                                          "padding",
                                          "pair_mask",
                                          "queries",
                                          "ragged",
                                          "relative_positions",
                                          "second_gradients",
                                          "window",
                                          "writing"};
  EXPECT_EQ(not_applicable, expected);
}

TEST(ConformanceKit, NamesTheChecksThatThereAre) {
  try {
    run_check("casuality", subject(sound));
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), says({"no check 'casuality'", "'causality'"}));
  }
}

TEST(ConformanceKit, FindsRefusalsOfWhatIsDeclared) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    if (in.visible.causal) throw TraitError("columns couple future and past");
    return self.sound(in, context);
  };
  Subject of = subject(attend);
  EXPECT_THAT(failure("causality", of), says({"refuses what it declares", "columns couple"}));
  of.may_refuse = true;
  const CheckResult result = run_check("causality", of);
  EXPECT_EQ(result.outcome, Outcome::not_applicable);
  EXPECT_THAT(result.message, says({"refused with these options", "columns couple"}));
}

TEST(ConformanceKit, CountsExceptionsAsFailures) {
  const auto throws = [](const AttentionShape&) -> std::shared_ptr<Attention> {
    throw std::runtime_error("the kernel table is empty\nframe #0");
  };
  const auto number = [](const AttentionShape&) -> std::shared_ptr<Attention> { throw 7; };
  const auto nothing = [](const AttentionShape&) { return std::shared_ptr<Attention>(); };
  for (const CheckInfo& check : kChecks) {
    const CheckResult result = run_check(check.name, {throws, AttentionTraits::all_quadratic()});
    if (result.outcome == Outcome::skipped || result.outcome == Outcome::not_applicable) continue;
    EXPECT_EQ(result.outcome, Outcome::failed) << check.name;
    EXPECT_THAT(result.message, says({"an exception", "the kernel table is empty"}));
  }
  EXPECT_THAT(failure("shapes", {number, {}}), says({"threw something", "std::exception"}));
  EXPECT_EQ(failure("shapes", {nothing, {}}), "the factory returned nothing");
}

}  // namespace
}  // namespace attnlab::conformance::conformance_test
