#include "framework/runs/run_reader.h"

#include <algorithm>

#include "framework/base/side_by_side.h"

namespace attnlab {
namespace {

constexpr std::size_t kAtATime = 512, kWorthAThread = 16;  // runs

}  // namespace

void RunReader::read(const std::vector<std::string>& folders, bool closely,
                     const std::function<void(IndexedRun&&)>& take,
                     const std::function<void(const Unreadable&)>& lost) {
  for (std::size_t begin = 0; begin < folders.size(); begin += kAtATime) {
    std::vector<Slot> slots(std::min(kAtATime, folders.size() - begin));
    side_by_side(slots.size(), kWorthAThread,
                 [&](std::size_t i) { slots[i] = read_one(folders[begin + i], closely); });
    for (std::size_t i = 0; i < slots.size(); ++i) {
      give(std::move(slots[i]), folders[begin + i], take, lost);
    }
  }
}

RunReader::Slot RunReader::read_one(const std::string& folder, bool closely) {
  Slot slot;
  if (index_.is_on()) slot.state = state_of_folder(folder);
  if (slot.state) slot.run = index_.find(folder, *slot.state);
  if (slot.run && (slot.run->details || !closely)) return slot;
  slot.is_new = true;
  slot.run.reset();
  try {
    IndexedRun run{read_run(folder, pool_), {}};
    if (closely) run.details = read_details(folder);
    slot.run = std::move(run);
  } catch (const Error& damage) {
    slot.reason = damage.what();
  }
  return slot;
}

void RunReader::give(Slot slot, const std::string& folder,
                     const std::function<void(IndexedRun&&)>& take,
                     const std::function<void(const Unreadable&)>& lost) {
  if (slot.is_new) ++opened_;
  if (!slot.run) return lost({folder, slot.reason});
  if (slot.state) {
    slot.is_new ? index_.add(*slot.run, *slot.state) : index_.keep(folder);
    if (index_.is_settled(*slot.state)) slot.run->record.files = slot.state;
  }
  take(std::move(*slot.run));
}

}  // namespace attnlab
