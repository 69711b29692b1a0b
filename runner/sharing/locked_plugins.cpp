#include "runner/sharing/locked_plugins.h"
#include "runner/process.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/experiment/installed.h"
#include "framework/manifest/discovery.h"
#include "framework/manifest/python_file.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/waiting_lock.h"
#include "runner/sharing/sharing.h"
#include "runner/sharing/workshop.h"

namespace attnlab {
namespace {

void say(const std::string& line) { std::cerr << printable(line) << "\n"; }

/// Held by the call that has a plugin in use for now: where nobody holds it, that call was killed.
std::string lock_of(const sharing::Installed& one) { return one.folder + "/for_now.lock"; }

bool is_held(const sharing::Installed& one) { return is_locked(lock_of(one)).value_or(false); }

std::string left_text(const sharing::Installed& one) {
  return one.label() + " was left in use by a killed call";
}

ConfigError used_elsewhere(const sharing::Installed& one) {
  return ConfigError(fmt::format(
      "{} is in use while another attnlab reproduce runs; wait for its end", one.label()));
}

/// Of two calls, one after the other puts plugins into use: between a plugin's coming into use and
/// its lock, it looks like one that a killed call left.
sharing::WaitingLock wait_for_turn(const sharing::Places& places) {
  sharing::make_folder(places.installed());
  const std::string path = places.installed() + "/for_now.lock";
  if (is_locked(path).value_or(false)) {
    say("another attnlab reproduce is putting plugins into use; waiting for it");
  }
  return sharing::WaitingLock(path);
}

bool none_is_for_now(const sharing::Store& store) {
  const auto active = store.active();
  return std::none_of(active.begin(), active.end(),
                      [](const sharing::Installed& one) { return one.for_now; });
}

/// The usable plugin of a kind and id; null: there is none.
const Candidate* find_part(const sharing::LockedPart& part, const Catalogue& catalogue) {
  for (const Candidate& candidate : catalogue.candidates()) {
    if (candidate.manifest && candidate.refused.empty() && candidate.manifest->id == part.id &&
        name_of(candidate.manifest->kind) == part.kind) {
      return &candidate;
    }
  }
  return nullptr;
}

}  // namespace

LockedPlugins::LockedPlugins(const sharing::Bundle& result, const Arguments& arguments,
                             const sharing::Places& places, sharing::Keyring& keys)
    : store_(places), keys_(keys) {
  Workshop workshop(workshop_options(arguments));
  const sharing::InstallTools tools = workshop.tools();
  options_.policy = sharing::read_policy(places.policy());
  options_.ask = asker(arguments.has("yes"));
  options_.allow_downgrade = arguments.has("allow-downgrade");
  options_.kit = !arguments.has("no-kit");
  options_.say = say;
  std::set<std::string> needed;
  for (const sharing::ArchiveFile& file : result.files) {
    if (file.path.starts_with("plugins/")) needed.insert(sharing::sha256(file.bytes));
  }
  if (needed.empty() && none_is_for_now(store_)) return;
  const sharing::WaitingLock turn = wait_for_turn(places);
  const SignalsNoted noted;
  end_what_was_left(needed);
  try {
    for (const sharing::ArchiveFile& file : result.files) {
      if (!file.path.starts_with("plugins/")) continue;
      const sharing::Bundle bundle = sharing::parse_bundle(file.bytes);
      const auto before = store_.find(bundle.contents.id.str());
      const bool same = before && before->bundle == bundle.sha256;
      const bool left = same && before->for_now;  // by a killed call: it goes back as well
      const bool other = before && !same;
      if (other && arguments.has("allow-other-bundles")) continue;
      if (before && before->for_now && !is_ours(*before) && is_held(*before)) {
        throw used_elsewhere(*before);
      }
      if (left) say(left_text(*before));
      if (other) {
        say(
            fmt::format("{} takes the place of {} while the runs run, for all that you run; "
                        "afterwards that is in use again (attnlab plugin rollback {}, should this "
                        "be killed)",
                        bundle.label(), before->label(), before->id.str()));
      }
      options_.for_now = other || left;
      const auto one = sharing::install(file.bytes, file.path, store_, keys, tools, options_);
      if (other || left) {
        in_place_of_others_.push_back(one);
        locks_.push_back(std::make_unique<FileLock>(lock_of(one)));
        if (locks_.back()->state() == FileLock::State::taken) {
          in_place_of_others_.pop_back();  // whoever has it puts it back
          throw used_elsewhere(one);
        }
      }
      say(fmt::format("uses {} ({})", one.label(), one.bundle.substr(0, 12)));
    }
  } catch (...) {
    go_back();
    throw;
  }
}

LockedPlugins::~LockedPlugins() { go_back(); }

bool LockedPlugins::is_ours(const sharing::Installed& one) const {
  return std::any_of(in_place_of_others_.begin(), in_place_of_others_.end(),
                     [&](const sharing::Installed& ours) { return ours.folder == one.folder; });
}

void LockedPlugins::end_what_was_left(const std::set<std::string>& needed) {
  for (const sharing::Installed& one : store_.active()) {
    if (!one.for_now || needed.count(one.bundle) > 0 || is_held(one)) continue;
    say(left_text(one));
    in_place_of_others_.push_back(one);
  }
  go_back();
}

void LockedPlugins::go_back() noexcept {
  // The last one first: of two bundles of one plugin it stands in the place of the other.
  std::reverse(in_place_of_others_.begin(), in_place_of_others_.end());
  for (const sharing::Installed& one : in_place_of_others_) {
    try {
      const auto now = store_.find(one.id.str());
      if (!now || now->bundle != one.bundle) continue;  // somebody has changed it meanwhile
      say(fmt::format("{} is in use again",
                      sharing::roll_back(one, store_, keys_, options_).label()));
    } catch (const std::exception& error) {
      std::cerr << "attnlab reproduce: " << message_text(error.what()) << "\n";
    }
  }
  in_place_of_others_.clear();
}

std::vector<std::string> check_locked_parts(const sharing::ResultLocks& locks, bool allow_others) {
  const Catalogue catalogue = Catalogue::of_this_program();
  std::vector<std::string> notes;
  for (const sharing::LockedPart& part : locks.parts) {
    if (part.id.starts_with(kPythonLab)) continue;  // a file that the run keeps
    const Candidate* const found = find_part(part, catalogue);
    if (found == nullptr) {
      throw PluginError(part.label() + " is not installed, and not in the file");
    }
    if (found->manifest->version != part.version) {
      notes.push_back(
          fmt::format("{}: differs here, version {}", part.label(), found->manifest->version));
    }
    if (part.bundle.empty()) continue;
    const auto from = installed_from(found->path);
    if (from && from->bundle == part.bundle) continue;
    const std::string other = fmt::format(
        "{}: the runs used bundle {}, here is {} ({})", part.label(),
        one_line(part.bundle.substr(0, 12)),
        from ? "bundle " + from->bundle.substr(0, 12) : "what came in no bundle", found->path);
    if (!allow_others) {
      throw sharing::TrustError(other + "; --allow-other-bundles takes it all the same");
    }
    notes.push_back(other);
  }
  return notes;
}

}  // namespace attnlab
