// attnlab study: the command, its two forms of output and its refusals.
#include "tests/integration/workspace.h"

namespace attnlab::testing::study_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Study : public Workspace {
 protected:
};

TEST_F(Study, PrintsMonteCarloBesideClosedForms) {
  const Words words = {"study",      "snr",        "dims=[8,32]",  "noises=[1]",
                       "shifts=[0]", "samples=50", "sharpness=[2]"};
  EXPECT_THAT(must(words).out,
              AllOf(HasSubstr("Noise in the values"), HasSubstr("| 32 "), HasSubstr(" ± ")));
  Words with_json = words;
  with_json.push_back("--json");
  const json found = json::parse(must(with_json).out);
  ASSERT_EQ(found.at("value_noise").size(), 2U);
  const json row = found.at("misalignment").at(1);
  EXPECT_EQ(row.at("dim"), 32);
  EXPECT_EQ(row.at("shift"), 0);
  EXPECT_NEAR(row.at("closed").at("snr").get<double>(), 0.5, 1e-9);
  EXPECT_EQ(row.at("printed").at("noise"), 64);
  EXPECT_NEAR(row.at("snr").at("value").get<double>(), 0.5,
              5 * row.at("snr").at("standard_error").get<double>());
}

TEST_F(Study, SaysWhatItDoesNotKnow) {
  EXPECT_THAT(refusal({"study", "snrr"}), HasSubstr("did you mean 'snr'?"));
  EXPECT_THAT(refusal({"study", "snr", "dim=[3]"}), HasSubstr("did you mean 'dims'?"));
  EXPECT_THAT(refusal({"study", "snr", "weights=values"}), HasSubstr("independent, keys"));
  EXPECT_THAT(refusal({"study", "snr", "noises=[0]"}), HasSubstr("noises"));
}

}  // namespace
}  // namespace attnlab::testing::study_test
