// Files of torch.save: their storages, and directories of zip64.
#include "framework/data/formats/torch_file.h"

#include "tests/support/data_files.h"
#include "tests/support/pickles.h"

namespace attnlab::torch_file_test {
namespace {

using namespace testing::pickles;
using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;

std::string zip_of(const std::string& value) {
  return testing::zip_file({{"a/data.pkl", file(value)},
                            {"a/data/0", raw(1.0F) + raw(2.0F) + raw(3.0F)},
                            {"a/version", "3\n"}},
                           /*deflated=*/false);
}

TEST(TorchFiles, HoldTensors) {
  const std::string bytes =
      zip_of(tuple({stored("0", "Float", {3, 1}), stored("0", "Float", {2})}));
  const TorchFile file(bytes, "a.pt");
  EXPECT_TRUE(file.root().item(0).tensor().equal(at::tensor({1.F, 2.F, 3.F}).view({3, 1})));
  EXPECT_TRUE(file.root().item(1).tensor().equal(at::tensor({1.F, 2.F})));
}

// As of more than 65534 members, which the graphs of a published set have.
TEST(TorchFiles, MayHaveADirectoryOfZip64) {
  std::string bytes = zip_of(stored("0", "Float", {3}));
  const std::size_t end = bytes.size() - 22, directory = bytes.find("PK\x01\x02");
  bytes.replace(end + 10, 2, "\xff\xff");
  bytes.replace(end + 16, 4, "\xff\xff\xff\xff");
  bytes.insert(end, "PK\x06\x06" + std::string(28, '\0') + raw(std::uint64_t{3}) +
                        raw(std::uint64_t{end - directory}) + raw(std::uint64_t{directory}) +
                        "PK\x06\x07" + std::string(4, '\0') + raw(std::uint64_t{end}) +
                        std::string(4, '\0'));
  const TorchFile file(bytes, "a.pt");
  EXPECT_TRUE(file.root().tensor().equal(at::tensor({1.F, 2.F, 3.F})));
}

TEST(TorchFiles, ThatAreNoneOrDamagedAreNamed) {
  const auto refusal = [](const std::string& bytes) {
    return message_of<DataError>([&] { TorchFile(bytes, "a.pt"); });
  };
  EXPECT_THAT(refusal("\x80\x02N."), mentions("a.pt:", "no directory"));
  EXPECT_THAT(refusal(testing::zip_file({{"a/code.py", ""}}, false)),
              HasSubstr("a.pt: holds no data.pkl"));
  EXPECT_THAT(refusal(zip_of(stored("1", "Float", {3}))), HasSubstr("a.pt: data.pkl: byte "));
  EXPECT_THAT(refusal(zip_of(stored("0", "Quantised", {3}))), HasSubstr("torch.QuantisedStorage"));
  EXPECT_THAT(refusal(zip_of(stored("0", "Float", {4}))), HasSubstr("beyond its storage"));
  EXPECT_THAT(refusal(zip_of(stored("0", "Double", {1}))), HasSubstr("within a value"));
  std::string other = zip_of("N");
  other[other.find(raw(1.0F)) + 2] ^= 1;
  EXPECT_THAT(refusal(other), mentions("a.pt:", "a/data/0", "another checksum"));
  // Members that are one another's bytes: each would be read, and all of them have no end.
  std::string thrice = testing::zip_file({{"a/data/0", std::string(1000, 'z')}}, false);
  const std::size_t directory = thrice.find("PK\x01\x02"), end = thrice.size() - 22;
  const std::string member = thrice.substr(directory, end - directory);
  thrice.replace(end + 10, 1, "\3");
  thrice.insert(end, member + member);
  EXPECT_THAT(refusal(thrice), mentions("a.pt:", "a/data/0", "lies on another"));
}

}  // namespace
}  // namespace attnlab::torch_file_test
