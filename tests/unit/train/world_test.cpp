// Sums in tree order, whatever the number of processes, and what processes tell each other.
#include "framework/train/world.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "framework/base/random.h"
#include "framework/train/gloo_world.h"
#include "tests/support/data_files.h"
#include "tests/support/thread_world.h"

namespace attnlab::world_test {
namespace {

using attnlab::testing::says;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::in_world;
using testing::message_of;

/// Numbers whose sum depends on the order, of a part.
std::vector<float> numbers_of(std::int64_t part, std::size_t count) {
  Random random = RandomStreams(7).stream("numbers", std::uint64_t(part));
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    number = static_cast<float>(random.normal() * std::pow(10.0, random.uniform(-3, 3)));
  }
  return numbers;
}

Tensor tensor_of(const std::vector<float>& numbers) {
  return at::tensor(at::ArrayRef<float>(numbers), at::kFloat);
}

/// The sum over the parts in [begin, begin + size) that are there, as the tree has it; written
/// independently: by halves, from above.
std::optional<float> sum_by_halves(const std::map<std::int64_t, std::vector<float>>& parts,
                                   std::int64_t begin, std::int64_t size, std::size_t k) {
  if (size == 1) {
    const auto found = parts.find(begin);
    return found == parts.end() ? std::nullopt : std::optional<float>(found->second[k]);
  }
  const auto left = sum_by_halves(parts, begin, size / 2, k);
  const auto right = sum_by_halves(parts, begin + size / 2, size / 2, k);
  if (!left || !right) return left ? left : right;
  return *left + *right;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0;
}

TEST(TreeSum, AddsByHalvesAlsoWherePartsAreMissing) {
  constexpr std::size_t kCount = 5;
  constexpr std::int64_t kParts = 16;
  int other_order = 0;
  for (std::uint64_t mask = 1; mask < (1U << kParts); mask = mask * 3 + 1) {
    std::map<std::int64_t, std::vector<float>> parts;
    TreeSum sum;
    for (std::int64_t part = 0; part < kParts; ++part) {
      if ((mask >> part) % 2 == 0) continue;
      parts[part] = numbers_of(part, kCount);
      sum.add(part, {tensor_of(parts[part])});
    }
    const std::vector<Tensor> result = sum.result();
    ASSERT_EQ(result.size(), 1U);
    for (std::size_t k = 0; k < kCount; ++k) {
      const float expected = *sum_by_halves(parts, 0, kParts, k);
      EXPECT_EQ(result[0][std::int64_t(k)].item<float>(), expected) << mask;
      float in_order = 0;
      for (const auto& [part, numbers] : parts) in_order += numbers[k];
      other_order += in_order != expected ? 1 : 0;
    }
  }
  EXPECT_GT(other_order, 5) << "the numbers tell orders apart";
}

TEST(TreeSum, LeavesOutWhatIsUndefined) {
  TreeSum sum;
  sum.add(0, {Tensor(), tensor_of({1})});
  sum.add(1, {tensor_of({2}), Tensor()});
  sum.add(3, {tensor_of({-0.0F}), Tensor()});
  const std::vector<Tensor> result = sum.result();
  EXPECT_EQ(result[0].item<float>(), 2);
  EXPECT_EQ(result[1].item<float>(), 1);
  EXPECT_TRUE(TreeSum().result().empty());
}

TEST(TreeSum, HasTheSameBitsOnAnyNumberOfProcesses) {
  constexpr std::int64_t kParts = 8;
  for (const std::size_t count : {1U, 2U, 3U, 8U, 1001U}) {
    const auto of_part = [&](std::int64_t part) {
      const Tensor numbers = tensor_of(numbers_of(part, count));
      return std::vector<Tensor>{numbers.clone(), numbers.to(at::kDouble),
                                 numbers.clone().view({-1, 1})};
    };
    TreeSum all;
    for (std::int64_t part = 0; part < kParts; ++part) all.add(part, of_part(part));
    const std::vector<Tensor> expected = all.result();
    for (const std::int64_t size : {1, 2, 4, 8}) {
      testing::Hall hall(size);
      in_world(
          size,
          [&](const std::shared_ptr<World>& world) {
            TreeSum own;
            const std::int64_t each = kParts / size;
            for (std::int64_t i = 0; i < each; ++i) {
              const std::int64_t part = world->rank() * each + i;
              own.add(part, of_part(part));
            }
            std::vector<Tensor> sums = own.result();
            tree_sum(*world, sums);
            for (std::size_t i = 0; i < sums.size(); ++i) {
              EXPECT_TRUE(same_bits(sums[i], expected[i])) << size << " processes, list " << i;
            }
          },
          &hall);
      // Of 3 numbers for each one of the list: all but one process's share, twice.
      EXPECT_LE(hall.numbers_sent, 2 * (size - 1) * 3 * std::int64_t(count));
    }
  }
}

TEST(World, GathersByRankAndLetsTheFirstDecide) {
  in_world(4, [](const std::shared_ptr<World>& world) {
    const std::string own(std::size_t(world->rank()) * 400, 'a' + char(world->rank()));
    const std::vector<std::string> all = world->gather(own);
    EXPECT_THAT(
        all, ElementsAre("", std::string(400, 'b'), std::string(800, 'c'), std::string(1200, 'd')));
    EXPECT_TRUE(world->first_says(world->rank() == 0));
    EXPECT_FALSE(world->first_says(world->rank() != 0));
  });
  EXPECT_THAT(World::alone()->gather("x"), ElementsAre("x"));
}

TEST(World, TellsAllWhatFailsInOne) {
  in_world(4, [](const std::shared_ptr<World>& world) {
    const auto make = [&]() -> std::string {
      if (world->rank() == 2) throw DataError("a hole in the data");
      return "made";
    };
    EXPECT_THAT(message_of<AgreedError>([&] { world->gather_made(make); }),
                says({"process 2 of 4:", "a hole in the data"}));
    const std::string rank = std::to_string(world->rank());
    EXPECT_THAT(world->gather_made([&] { return rank; }), ElementsAre("0", "1", "2", "3"))
        << "their calls still fit";
  });
  const auto alone = World::alone();
  EXPECT_EQ(message_of<DataError>(
                [&] { alone->gather_made([]() -> std::string { throw DataError("its own"); }); }),
            "its own");
  EXPECT_THAT(alone->gather_made([] { return "x"; }), ElementsAre("x"));
}

/// A port of this machine at which somebody listens, and never answers. It stays until this program
/// ends: a thread of c10d's ends that where its connection is reset.
class MutePort {
 public:
  MutePort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_, plain, size), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    EXPECT_EQ(::getsockname(socket_, plain, &size), 0);
    number_ = ntohs(address.sin_port);
  }
  MutePort(const MutePort&) = delete;
  MutePort& operator=(const MutePort&) = delete;
  std::int64_t number() const { return number_; }

 private:
  int socket_;
  std::int64_t number_ = 0;
};

TEST(GlooWorld, GivesUpAMeetingPlaceThatDoesNotAnswer) {
  const MutePort port;
  const Launched launched{
      .by = "torchrun", .rank = 1, .size = 2, .address = "127.0.0.1", .port = port.number()};
  const std::string message =
      message_of<ConfigError>([&] { join_world(launched, std::chrono::seconds(1)); });
  if (message.find("without Gloo") != std::string::npos) GTEST_SKIP() << message;
  EXPECT_THAT(message, AllOf(HasSubstr("process 1 of 2"),
                             AnyOf(HasSubstr("does not answer"), HasSubstr("gets no answer")),
                             HasSubstr("127.0.0.1:" + std::to_string(port.number()))));
}

TEST(World, StopsAllWhereOneIsAskedTo) {
  in_world(4, [](const std::shared_ptr<World>& world) {
    std::atomic<bool> asked{false};
    world->heed(asked);
    world->meet();
    EXPECT_FALSE(world->stop());
    asked = world->rank() == 2;
    EXPECT_FALSE(world->stop()) << "nobody knows yet";
    world->meet();
    EXPECT_TRUE(world->stop());
  });
}

TEST(Packed, TensorsComeBackBitForBit) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const NamedTensors tensors = {{"x", at::tensor({1.5, -0.0, nan}, at::kDouble)},
                                {"y", at::arange(6, at::kLong).view({2, 3}).t()},
                                {"none", at::empty({0, 4})},
                                {"yes", at::tensor({1, 0}, at::kLong).to(at::kBool)},
                                {"half", at::ones({2}, at::kBFloat16)},
                                {"one", at::scalar_tensor(3)}};
  const std::string text = packed(tensors);
  const NamedTensors back = unpacked(text);
  ASSERT_EQ(back.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(same_bits(tensor, back.at(name))) << name;
  EXPECT_EQ(unpacked(packed({})).size(), 0U);
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, text.size() - 1}) {
    EXPECT_THAT(message_of<DataError>([&] { unpacked(text.substr(0, length)); }),
                HasSubstr("tensors from another process"));
  }
}

}  // namespace
}  // namespace attnlab::world_test
