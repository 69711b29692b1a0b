// What is absent, in words.
#include "framework/runs/absence.h"

#include <gmock/gmock.h>

#include "tests/support/message_of.h"

namespace attnlab::absence_test {
namespace {

using attnlab::testing::mentions;
using ::testing::ElementsAre;

AbsentCell absent(const char* experiment, const char* attention, std::int64_t seed,
                  const Gap& gap) {
  return {experiment, attention, seed, gap, ""};
}

TEST(AbsenceLines, SayWhatIsAbsentAlikeOnce) {
  const Gap no_data{Absence::no_data, "not here"}, slow{Absence::skipped, "slow"};
  EXPECT_THAT(absence_lines({absent("a", "standard", 0, no_data),
                             absent("a", "standard", 1, no_data), absent("a", "quest", 0, no_data),
                             absent("a", "quest", 1, no_data), absent("b", "quest", 0, no_data)}),
              ElementsAre(mentions("a, standard, quest, seeds 0, 1", "no data: not here"),
                          mentions("b, quest, seed 0", "no data: not here")));
  EXPECT_THAT(absence_lines({absent("a", "standard", 0, slow), absent("a", "quest", 1, slow),
                             absent("a", "quest", 0, no_data), absent("a", "qnorm", 1, slow)}),
              ElementsAre("a, standard, seed 0: skipped: slow",
                          mentions("a, quest, qnorm, seed 1", "skipped: slow"),
                          mentions("a, quest, seed 0", "no data: not here")));
  EXPECT_THAT(absence_lines({}), ElementsAre());
}

}  // namespace
}  // namespace attnlab::absence_test
