#include "framework/train/step_profile.h"

#include <unistd.h>

#include <chrono>
#include <string_view>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/tensor/flop_counter.h"

namespace attnlab {
namespace {

StepProfile* active = nullptr;

std::int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

bool is_step(const at::RecordFunction& operation) {
  return operation.scope() == at::RecordScope::USER_SCOPE &&
         std::string_view(operation.name()) == kStepScope;
}

std::string_view kind_of(at::RecordScope scope, const std::string& name) {
  switch (scope) {
    case at::RecordScope::USER_SCOPE:
      return name.starts_with("attnlab::") ? "kernel" : "part of a step";
    case at::RecordScope::BACKWARD_FUNCTION:
      return "backward";
    default:
      return "operation";
  }
}

}  // namespace

struct StepProfile::Began final : at::ObserverContext {
  std::int64_t at = now();
  std::string sizes;
};

StepProfile::StepProfile(std::int64_t steps, std::int64_t skipped)
    : wanted_(steps), skipped_(skipped) {
  if (active != nullptr) throw Error("a profile is recorded already: only one can be at a time");
  active = this;
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end)
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::USER_SCOPE}));
}

StepProfile::~StepProfile() {
  at::removeCallback(handle_);
  active = nullptr;
}

std::unique_ptr<at::ObserverContext> StepProfile::begin(const at::RecordFunction& operation) {
  StepProfile* profile = active;
  if (profile == nullptr) return nullptr;
  {
    const std::lock_guard lock(profile->mutex_);
    if (is_step(operation)) ++profile->step_;
    if (!profile->records()) return nullptr;
  }
  auto began = std::make_unique<Began>();
  began->sizes = sizes_text(operation);
  return began;
}

void StepProfile::end(const at::RecordFunction& operation, at::ObserverContext* context) {
  StepProfile* profile = active;
  if (profile == nullptr || context == nullptr) return;
  const auto& began = static_cast<const Began&>(*context);
  Event event{operation.name(),     began.sizes, operation.scope(),
              operation.threadId(), began.at,    now() - began.at};
  const std::lock_guard lock(profile->mutex_);
  if (is_step(operation)) ++profile->ended_;
  profile->events_.push_back(std::move(event));
}

std::int64_t StepProfile::steps() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void StepProfile::write(const std::string& path) const {
  nlohmann::json events = nlohmann::json::array();
  {
    const std::lock_guard lock(mutex_);
    for (const Event& event : events_) {
      nlohmann::json entry = {{"ph", "X"},
                              {"name", event.name},
                              {"cat", kind_of(event.scope, event.name)},
                              {"ts", double(event.begin) / 1e3},  // µs
                              {"dur", double(event.nanoseconds) / 1e3},
                              {"pid", ::getpid()},
                              {"tid", event.thread}};
      if (!event.sizes.empty()) entry["args"] = {{"sizes", event.sizes}};
      events.push_back(std::move(entry));
    }
  }
  write_file(path, nlohmann::json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump());
}

}  // namespace attnlab
