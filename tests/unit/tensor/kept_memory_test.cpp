#include "framework/tensor/kept_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace attnlab::testing::kept_memory_test {
namespace {

TEST(KeptMemory, IsThatOfTheLastTensorOfItsSize) {
  Tensor first = empty_kept({3, 224, 224});
  EXPECT_EQ(first.sizes(), (std::vector<std::int64_t>{3, 224, 224}));
  EXPECT_EQ(first.scalar_type(), at::kFloat);
  const void* block = first.data_ptr();
  first = Tensor();
  // A little smaller, of another type, made elsewhere.
  Tensor second;
  std::thread([&] { second = empty_kept({223, 224, 3}, at::kInt); }).join();
  EXPECT_EQ(second.data_ptr(), block);
  const Tensor third = empty_kept({3, 224, 224});
  EXPECT_NE(third.data_ptr(), block) << "it is in use";
}

TEST(KeptMemory, IsInUseWhileAViewIs) {
  Tensor whole = empty_kept({100, 1000}, at::kDouble);
  const void* block = whole.data_ptr();
  whole.fill_(7);
  const Tensor row = whole[3];
  whole = Tensor();
  const Tensor other = empty_kept({100, 1000}, at::kDouble).fill_(1);
  EXPECT_NE(other.data_ptr(), block);
  EXPECT_TRUE(row.eq(7).all().item<bool>());
}

std::int64_t resident_bytes() {
  std::int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// What is kept makes room: in use and kept are never more than was in use at one time.
TEST(KeptMemory, OtherSizesTakeThePlaceOfWhatIsKept) {
  constexpr std::int64_t kBytes = std::int64_t{32} << 20;
  const std::int64_t before = resident_bytes();
  for (std::int64_t i = 0; i < 48; ++i) {  // 1.1 GB, were they all kept
    empty_kept({kBytes - i * (kBytes / 96)}, at::kByte).fill_(1);
  }
  EXPECT_LT(resident_bytes() - before, 16 * kBytes);
}

TEST(KeptMemory, SmallAndEmptyTensorsAreOrdinary) {
  EXPECT_EQ(empty_kept({}).dim(), 0);
  EXPECT_EQ(empty_kept({0, 5}, at::kLong).sizes(), (std::vector<std::int64_t>{0, 5}));
  EXPECT_EQ(empty_kept({10}, at::kBool).scalar_type(), at::kBool);
}

}  // namespace
}  // namespace attnlab::testing::kept_memory_test
