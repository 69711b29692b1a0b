#include "framework/train/world.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cstring>
#include <map>

#include "framework/base/error_text.h"
#include "framework/base/json.h"

namespace attnlab {
namespace {

class Alone final : public World {
 public:
  Alone() : World(0, 1) {}
  void exchange(const Tensor&, const Tensor&, std::int64_t partner) override {
    throw Error(fmt::format("World: there is no process {} beside this one", partner));
  }

 private:
  std::vector<std::string> gather_all(const std::string& mine) override { return {mine}; }
};

/// A range of numbers.
struct Range {
  std::int64_t begin = 0, size = 0;
  Tensor of(const Tensor& flat) const { return flat.narrow(0, begin, size); }
};

/// The halves of a range: that of the lower rank of a pair, and of the upper one.
std::pair<Range, Range> halves(const Range& whole) {
  const std::int64_t half = whole.size / 2;
  return {{whole.begin, half}, {whole.begin + half, whole.size - half}};
}

/// @param flat  [n], on the CPU
void sum_flat(World& world, const Tensor& flat) {
  struct Level {
    std::int64_t partner = 0;
    Range own, theirs;
  };
  std::vector<Level> levels;
  Range range{0, flat.size(0)};
  const Tensor room = at::empty({(range.size + 1) / 2}, flat.options());
  for (std::int64_t bit = 1; bit < world.size(); bit *= 2) {
    const bool lower = (world.rank() & bit) == 0;
    const auto [left, right] = halves(range);
    const Level level{world.rank() ^ bit, lower ? left : right, lower ? right : left};
    const Tensor sent = level.theirs.of(flat), mine = level.own.of(flat);
    const Tensor received = room.narrow(0, 0, level.own.size);
    world.exchange(sent, received, level.partner);
    mine.add_(received);  // (a + b and b + a are the same bits)
    levels.push_back(level);
    range = level.own;
  }
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    world.exchange(level->own.of(flat), level->theirs.of(flat), level->partner);
  }
}

}  // namespace

std::shared_ptr<World> World::alone() { return std::make_shared<Alone>(); }

std::vector<std::string> World::gather(const std::string& mine) {
  const bool asked = asked_ != nullptr && *asked_;
  std::vector<std::string> all = gather_all((asked ? '!' : '.') + mine);
  for (std::string& text : all) {
    if (text.front() == '!') stop_ = true;
    text.erase(0, 1);
  }
  return all;
}

std::vector<std::string> World::gather_made(const std::function<std::string()>& make) {
  if (size_ == 1) return gather(make());
  std::string mine;
  try {
    mine = "+" + make();
  } catch (const std::exception& error) {
    mine = "-" + text_of(error);
  }
  std::vector<std::string> all = gather(mine);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool made = all[i].starts_with('+');
    all[i].erase(0, 1);
    if (!made) throw AgreedError(fmt::format("{}: {}", name(std::int64_t(i)), all[i]));
  }
  return all;
}

bool World::first_says(bool mine) { return gather(mine ? "1" : "0").front() == "1"; }

std::string World::name(std::int64_t rank) const {
  return fmt::format("process {} of {}", rank, size_);
}

void tree_sum(World& world, std::vector<Tensor>& tensors) {
  if (world.size() == 1) return;
  const c10::NoGradGuard no_gradients;
  std::map<at::ScalarType, std::vector<Tensor>> by_dtype;
  for (const Tensor& tensor : tensors) by_dtype[tensor.scalar_type()].push_back(tensor);
  for (auto& [dtype, list] : by_dtype) {
    std::vector<Tensor> rows;
    rows.reserve(list.size());
    for (const Tensor& tensor : list) rows.push_back(tensor.detach().to(at::kCPU).reshape(-1));
    const Tensor flat = at::cat(rows);
    sum_flat(world, flat);
    std::int64_t begin = 0;
    for (Tensor& tensor : list) {
      tensor.detach().copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
      begin += tensor.numel();
    }
  }
}

void all_gather(World& world, const Tensor& flat, const std::vector<std::int64_t>& cuts) {
  const auto of_group = [&](std::int64_t first, std::int64_t count) {
    const std::int64_t begin = cuts[static_cast<std::size_t>(first)];
    return flat.narrow(0, begin, cuts[static_cast<std::size_t>(first + count)] - begin);
  };
  for (std::int64_t count = 1; count < world.size(); count *= 2) {
    const std::int64_t own = world.rank() & ~(count - 1), other = own ^ count;
    world.exchange(of_group(own, count), of_group(other, count), world.rank() ^ count);
  }
}

/// The last node is the whole of what stands below its parent: it becomes that.
void TreeSum::rise() {
  Node last = std::move(nodes_.back());
  nodes_.pop_back();
  const bool has_left = !nodes_.empty() && last.index % 2 == 1 &&
                        nodes_.back().level == last.level && nodes_.back().index == last.index - 1;
  if (has_left) {
    const c10::NoGradGuard no_gradients;
    Node& left = nodes_.back();
    for (std::size_t i = 0; i < last.tensors.size(); ++i) {
      if (!left.tensors[i].defined()) {
        left.tensors[i] = last.tensors[i];
      } else if (last.tensors[i].defined()) {
        left.tensors[i].add_(last.tensors[i]);
      }
    }
    last.tensors = std::move(left.tensors);
    nodes_.pop_back();
  }
  nodes_.push_back({last.level + 1, last.index / 2, std::move(last.tensors)});
}

void TreeSum::add(std::int64_t part, std::vector<Tensor> tensors) {
  const auto done = [&] {  // nothing more comes below the last node's parent
    const Node& last = nodes_.back();
    return part >> (last.level + 1) != last.index / 2 || last.index % 2 == 1;
  };
  while (!nodes_.empty() && done()) rise();
  nodes_.push_back({0, part, std::move(tensors)});
}

std::vector<Tensor> TreeSum::result() {
  if (nodes_.empty()) return {};
  while (nodes_.size() > 1) rise();
  std::vector<Tensor> sum = std::move(nodes_.front().tensors);
  nodes_.clear();
  return sum;
}

std::string packed(const NamedTensors& tensors) {
  nlohmann::json list = nlohmann::json::array();
  std::string bytes;
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = tensor.detach().to(at::kCPU).contiguous();
    list.push_back({name, static_cast<int>(dense.scalar_type()), dense.sizes().vec()});
    bytes.append(static_cast<const char*>(dense.data_ptr()), dense.nbytes());
  }
  const std::vector<std::uint8_t> head = nlohmann::json::to_msgpack(list);
  std::string text = std::to_string(head.size()) + ":";
  text.append(head.begin(), head.end());
  return text + bytes;
}

NamedTensors unpacked(const std::string& text) {
  try {
    std::size_t digits = 0;
    const std::size_t size = std::stoul(text, &digits);
    std::size_t at = digits + 1 + size;
    if (at > text.size()) throw DataError("tensors from another process: cut short");
    const auto begin = text.begin() + std::ptrdiff_t(digits) + 1;
    NamedTensors tensors;
    for (const auto& item : nlohmann::json::from_msgpack(begin, begin + std::ptrdiff_t(size))) {
      const auto dtype = static_cast<at::ScalarType>(item.at(1).get<int>());
      const auto sizes = item.at(2).get<std::vector<std::int64_t>>();
      const Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(dtype));
      if (tensor.nbytes() > text.size() - at) {
        throw DataError("tensors from another process: cut short");
      }
      if (tensor.nbytes() > 0) std::memcpy(tensor.data_ptr(), text.data() + at, tensor.nbytes());
      at += tensor.nbytes();
      tensors.set(item.at(0).get<std::string>(), tensor);
    }
    return tensors;
  } catch (const DataError&) {
    throw;
  } catch (const std::exception& error) {
    throw DataError(fmt::format("tensors from another process: damaged: {}", error.what()));
  }
}

}  // namespace attnlab
