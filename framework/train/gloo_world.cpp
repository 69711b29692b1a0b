#include "framework/train/gloo_world.h"

#include <fmt/format.h>

#include <cstdlib>

#include "framework/base/text.h"

#ifdef USE_C10D_GLOO
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "framework/base/bounded_call.h"
#include "framework/base/clock.h"
#include "framework/base/error_text.h"
#include "framework/base/foreign_text.h"
#include "framework/base/power_of_two.h"
#endif

namespace attnlab {
namespace {

constexpr const char* kPatience = "ATTNLAB_PATIENCE";

}  // namespace

std::chrono::seconds patience() {
  const char* const text = std::getenv(kPatience);
  if (text == nullptr) return std::chrono::seconds(600);
  const auto seconds = parsed_number<int>(text);
  if (seconds && *seconds >= 1 && *seconds <= 100000) return std::chrono::seconds(*seconds);
  throw ConfigError(
      fmt::format("{}: '{}' in the environment is not a number of seconds from 1 to "
                  "100000; set another, or unset it for ten minutes",
                  kPatience, text));
}

#ifdef USE_C10D_GLOO

namespace {

using Milliseconds = std::chrono::milliseconds;
using StorePointer = c10::intrusive_ptr<c10d::Store>;
using GroupPointer = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

/// c10d's own patience says more where it ends first.
constexpr std::chrono::seconds kLonger{5};

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// What c10d or Gloo threw, in a line.
std::string why(const std::exception& error) {
  return one_line(without_backtrace(text_of(error)), 300);
}

std::string place_of(const Launched& launched) {
  return launched.file.empty() ? fmt::format("{}:{}", launched.address, launched.port)
                               : launched.file;
}

/// "pid 77 on node2".
std::string self() {
  char host[256] = "an unknown host";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("pid {} on {}", ::getpid(), host);
}

/// @throws ConfigError.
StorePointer tcp_store(const Launched& launched, Milliseconds patience) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(launched.port);
  options.isServer = launched.rank == 0 && !launched.listens;
  options.waitWorkers = false;
  options.timeout = patience;
  try {
    const auto connect = [options, address = launched.address]() -> StorePointer {
      return c10::make_intrusive<c10d::TCPStore>(address, options);
    };
    return bounded_call(patience + kLonger, connect);
  } catch (const std::exception& error) {
    if (options.isServer) {
      throw ConfigError(fmt::format(
          "process 0 of {} cannot listen at port {}: {}; is it in use, by another run or by a "
          "second process of rank 0? Choose another one (MASTER_PORT)",
          launched.size, launched.port, why(error)));
    }
    throw ConfigError(fmt::format(
        "process {} of {} gets no answer from {} after {} seconds: {}; does process 0 run there, "
        "and may this host reach it? MASTER_ADDR and MASTER_PORT say where it is",
        launched.rank, launched.size, place_of(launched), patience.count() / 1000, why(error)));
  }
}

StorePointer store_of(const Launched& launched, Milliseconds patience) {
  StorePointer store;
  if (launched.file.empty()) {
    store = tcp_store(launched, patience);
  } else {
    store = c10::make_intrusive<c10d::FileStore>(launched.file, static_cast<int>(launched.size));
  }
  store->setTimeout(patience);
  return c10::make_intrusive<c10d::PrefixStore>("attnlab/" + launched.attempt, store);
}

/// Where Gloo listens: the interface that GLOO_SOCKET_IFNAME names, else this machine's own for
/// processes of one machine, else that of the host's name.
std::shared_ptr<::gloo::transport::Device> gloo_device(const Launched& launched) {
  const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr) return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  if (!launched.file.empty()) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

class GlooWorld final : public World {
 public:
  GlooWorld(const Launched& launched, Milliseconds patience)
      : World(launched.rank, launched.size), patience_(patience) {
    store_ = store_of(launched, patience);
    introduce(launched);
    auto options = c10d::ProcessGroupGloo::Options::create(patience);
    options->threads = 1;
    try {
      options->devices = {gloo_device(launched)};
      const auto connect = [store = store_, options, launched]() -> GroupPointer {
        return c10::make_intrusive<c10d::ProcessGroupGloo>(
            store, static_cast<int>(launched.rank), static_cast<int>(launched.size), options);
      };
      group_ = bounded_call(patience + kLonger, connect);
    } catch (const std::exception& error) {
      throw ConfigError(
          fmt::format("{} met the others at {} and cannot connect to them: {}; may these hosts "
                      "reach each other by any port? GLOO_SOCKET_IFNAME names the interface",
                      name(rank()), place_of(launched), why(error)));
    }
  }

  void exchange(const Tensor& mine, const Tensor& theirs, std::int64_t partner) override {
    attempt([&] {
      std::vector<at::Tensor> sent = {mine}, received = {theirs};
      const int other = static_cast<int>(partner);
      int& tag = tags_[partner];
      tag = (tag + 1) % (1 << 20);  // the same in both
      c10::intrusive_ptr<c10d::Work> sending, receiving;
      if (theirs.numel() > 0) receiving = group_->recv(received, other, tag);
      if (mine.numel() > 0) sending = group_->send(sent, other, tag);
      if (receiving) receiving->wait(patience_);
      if (sending) sending->wait(patience_);
    });
  }

  std::string name(std::int64_t rank) const override {
    const auto& who = who_[static_cast<std::size_t>(rank)];
    return fmt::format("{} ({})", World::name(rank), who.empty() ? "unknown" : who);
  }

  void leave(const std::string& reason) noexcept override {
    try {
      set(word_of(rank()), one_line(reason, 300), kShortly);
    } catch (...) {  // process 0, which keeps the store, is gone
    }
  }

  Missing missing() override {
    std::vector<std::string> silent, words;
    const Clock::time_point last = Clock::now() + std::chrono::seconds(3);
    for (std::int64_t other = 0; other < size(); ++other) {
      if (other == rank()) continue;
      const std::string word = word_by(other, last);
      if (word.empty()) {
        silent.push_back(name(other));
      } else if (word != kLost) {
        words.push_back(fmt::format("{}: {}", name(other), word));
      }
    }
    const bool failed = !words.empty();
    if (!silent.empty()) words.push_back(join(silent, " and ") + " ended or does not answer");
    return {words.empty() ? "a connection between processes broke" : join(words, "; "), failed};
  }

 private:
  static constexpr std::size_t kShort = 504;  // bytes that go with the first message
  static constexpr const char* kLost = "lost the others";
  static constexpr Milliseconds kShortly{1000};

  static std::string word_of(std::int64_t rank) { return fmt::format("word/{}", rank); }

  /// What the store does. One that does not answer is not asked again: each time would take as
  /// long.
  /// @throws Error.
  template <class Call>
  auto ask(Milliseconds limit, Call call) {
    constexpr const char* kMute = "the meeting place does not answer";
    if (mute_) throw Error(kMute);
    try {
      return bounded_call(limit, [store = store_, call = std::move(call)] { return call(*store); });
    } catch (const NoAnswer&) {
      mute_ = true;
      throw Error(kMute);
    }
  }
  void set(const std::string& key, const std::string& text, Milliseconds limit) {
    ask(limit, [key, text](c10d::Store& store) { store.set(key, bytes_of(text)); });
  }
  bool has(const std::string& key, Milliseconds limit) {
    return ask(limit, [key](c10d::Store& store) { return store.check({key}); });
  }
  /// Of a key that is there.
  std::string get(const std::string& key, Milliseconds limit) {
    const std::vector<std::uint8_t> text =
        ask(limit, [key](c10d::Store& store) { return store.get(key); });
    return {text.begin(), text.end()};
  }

  /// Tells who this is, and waits for the others. @throws ConfigError.
  void introduce(const Launched& launched) {
    const auto key = [](std::int64_t rank) { return fmt::format("who/{}", rank); };
    who_.resize(static_cast<std::size_t>(size()));
    try {
      const std::string own = fmt::format("rank/{}", rank());
      if (ask(patience_, [own](c10d::Store& store) { return store.add(own, 1); }) > 1) {
        throw ConfigError(fmt::format(
            "{}: a second process with rank {} ({}): each needs a rank of its own, from 0 to {}; "
            "does another run meet at this place? Of two commands in one script each needs an srun "
            "or torchrun of its own",
            place_of(launched), rank(), self(), size() - 1));
      }
      set(key(rank()), self(), patience_);
      const Clock::time_point last = Clock::now() + patience_;
      for (std::int64_t other = 0; other < size(); ++other) {
        if (!comes(key(other), last)) complain_of_absent(launched, key);
        who_[static_cast<std::size_t>(other)] = get(key(other), patience_);
      }
    } catch (const ConfigError&) {
      throw;
    } catch (const std::exception& error) {
      throw ConfigError(fmt::format("{} lost the meeting place {}: {}; did process 0 end?",
                                    World::name(rank()), place_of(launched), why(error)));
    }
  }

  [[noreturn]] void complain_of_absent(const Launched& launched,
                                       const std::function<std::string(std::int64_t)>& key) {
    std::vector<std::string> absent;
    for (std::int64_t other = 0; other < size(); ++other) {
      if (!has(key(other), kShortly)) absent.push_back(std::to_string(other));
    }
    throw ConfigError(
        fmt::format("{} waited {} seconds at {} for ranks {}, which did not come; are {} processes "
                    "started, and do they know this place? ATTNLAB_PATIENCE says how long to wait",
                    World::name(rank()), patience_.count() / 1000, place_of(launched),
                    join(absent, ", "), size()));
  }

  bool comes(const std::string& key, Clock::time_point last) {
    const auto rest = [&] { return std::chrono::ceil<Milliseconds>(last - Clock::now()); };
    while (!has(key, std::max(rest(), kShortly))) {
      if (Clock::now() >= last) return false;
      std::this_thread::sleep_for(Milliseconds(20));
    }
    return true;
  }

  /// What a process said last; empty where it says nothing until then.
  std::string word_by(std::int64_t rank, Clock::time_point last) {
    try {
      if (!comes(word_of(rank), last)) return "";
      return get(word_of(rank), kShortly);
    } catch (const std::exception&) {  // process 0 is gone, and the store with it
      return rank == 0 ? "" : kLost;
    }
  }

  /// @throws WorldError.
  template <class Action>
  void attempt(const Action& action) {
    try {
      action();
    } catch (const std::exception& error) {
      leave(kLost);
      throw WorldError(fmt::format("{} waited in vain for others: {}", name(rank()), why(error)));
    }
  }

  /// One message holds a short text and its length; what is longer follows in a second.
  std::vector<std::string> gather_all(const std::string& mine) override {
    std::vector<std::string> all;
    attempt([&] {
      std::string head(kShort + sizeof(std::uint64_t), '\0');
      const std::uint64_t size = mine.size();
      std::memcpy(head.data(), &size, sizeof size);
      std::memcpy(head.data() + sizeof size, mine.data(), std::min(mine.size(), kShort));
      std::vector<std::uint64_t> sizes;
      for (const std::string& one : gather_equal(head)) {
        std::uint64_t other = 0;
        std::memcpy(&other, one.data(), sizeof other);
        sizes.push_back(other);
        all.push_back(one.substr(sizeof other, std::min<std::uint64_t>(other, kShort)));
      }
      const std::uint64_t longest = *std::max_element(sizes.begin(), sizes.end());
      if (longest <= kShort) return;
      std::string whole = mine;
      whole.resize(longest);
      all = gather_equal(whole);
      for (std::size_t i = 0; i < all.size(); ++i) all[i].resize(sizes[i]);
    });
    return all;
  }

  /// Texts that are equally long in all processes.
  std::vector<std::string> gather_equal(const std::string& mine) {
    const auto length = static_cast<std::int64_t>(mine.size());
    at::Tensor bytes = at::empty({length}, at::kByte);
    std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
    std::vector<at::Tensor> inputs = {bytes};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (std::int64_t i = 0; i < size(); ++i) outputs[0].push_back(at::empty({length}, at::kByte));
    group_->allgather(outputs, inputs)->wait();
    std::vector<std::string> all;
    for (const at::Tensor& one : outputs[0]) {
      all.emplace_back(static_cast<const char*>(one.data_ptr()), mine.size());
    }
    return all;
  }

  Milliseconds patience_;
  std::map<std::int64_t, int> tags_;  ///< of the last exchange with each partner
  bool mute_ = false;                 ///< the store does not answer
  std::vector<std::string> who_;
  StorePointer store_;
  GroupPointer group_;
};

}  // namespace

std::shared_ptr<World> join_world(const Launched& launched, std::chrono::seconds patience) {
  if (!is_power_of_two(launched.size)) {
    throw ConfigError(
        fmt::format("{} processes carry out one run: a power of two is needed, so "
                    "that sums are trees; start 1, 2, 4, 8, ...",
                    launched.size));
  }
  return std::make_shared<GlooWorld>(launched, patience);
}

#else

std::shared_ptr<World> join_world(const Launched& launched, std::chrono::seconds) {
  throw ConfigError(fmt::format(
      "this is process {} of {} of one run, and this attnlab was built without Gloo, by "
      "which they would speak; install libgloo-dev (scripts/setup.sh does) and build "
      "it again, or run one process",
      launched.rank, launched.size));
}

#endif

}  // namespace attnlab
