// What is known of jobs without asking Slurm.
#include "runner/slurm_jobs.h"

#include "tests/support/temp_folder.h"

namespace attnlab::slurm_jobs_test {
namespace {

using namespace testing;

TEST(VainStops, AreCountedInARow) {
  const TempFolder folder;
  const std::string file = vain_file(folder.path(), "0");
  EXPECT_EQ(count_vain(file, 0, 0), 1);
  EXPECT_EQ(count_vain(file, 0, 0), 2);
  EXPECT_EQ(count_vain(file, 0, 7), 0) << "it went forward";
  EXPECT_EQ(count_vain(file, 7, 7), 1);
  EXPECT_EQ(count_vain(file, 7, 7), 2);
  EXPECT_EQ(count_vain(file, 9, 9), 1) << "it went forward in a time that was killed";
  EXPECT_EQ(count_vain(file, 9, 9), 2);
  EXPECT_EQ(count_vain(file, 9, 9), kVainStops);
}

TEST(VainStops, AreCountedAnewWhereTheFileIsDamaged) {
  const TempFolder folder;
  EXPECT_EQ(count_vain(folder.write("vain-0.txt", "many"), 0, 0), 1);
  EXPECT_LE(count_vain(folder.write("vain-0.txt", "0 99999999999"), 0, 0), kVainStops + 1);
  EXPECT_EQ(count_vain(folder.write("vain-0.txt", "0 -5"), 0, 0), 1);
}

TEST(SubmittedJobs, HaveNumbersThatGoOn) {
  const TempFolder folder;
  for (const std::string number : {"9223372036854775807", "1e300", "0", "\"1\""}) {
    folder.write("slurm/jobs.json", "{\"jobs\": [{\"number\": " + number +
                                        ", \"name\": \"a\", \"id\": \"\", \"cells\": []}]}");
    try {
      read_jobs(folder.path());
      ADD_FAILURE() << number;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("jobs.json: damaged: "), std::string::npos)
          << error.what();
    }
  }
}

TEST(SubmittedJobs, AreNumbersOnALineOfTheirOwn) {
  EXPECT_EQ(submitted_id("101\n"), "101");
  EXPECT_EQ(submitted_id("Welcome; 3 nodes are down\n101;far\nBye\n"), "101");
  EXPECT_EQ(submitted_id("Submitted batch job\n"), "");
}

}  // namespace
}  // namespace attnlab::slurm_jobs_test
