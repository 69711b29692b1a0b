// The module's one exported function, and what its commands ask people.
#include "runner/sharing/sharing.h"

#include <fmt/format.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <map>

#include "framework/base/foreign_text.h"
#include "framework/sharing/hash.h"

namespace attnlab {
namespace {

/// Keeps what is typed from the screen.
class NoEcho {
 public:
  NoEcho() : known_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (known_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
  }
  ~NoEcho() {
    if (known_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  NoEcho(const NoEcho&) = delete;
  NoEcho& operator=(const NoEcho&) = delete;

 private:
  termios before_{};
  bool known_;
};

}  // namespace

std::string lab_of(const Arguments& arguments, const sharing::Keyring& keys) {
  if (arguments.has("lab")) return arguments.text("lab", "");
  std::vector<std::string> own;
  for (const sharing::KnownKey& key : keys.keys()) {
    if (keys.has_secret(key.lab) && key.objection().empty()) own.push_back(key.lab);
  }
  if (own.size() == 1) return own.front();
  throw ConfigError("--lab is missing: which lab packs this?");
}

sharing::Ask asker(bool yes) {
  return [yes](const std::string& question) {
    std::cerr << printable(question);
    if (yes) {
      std::cerr << " yes (--yes)\n";
      return true;
    }
    if (::isatty(STDIN_FILENO) == 0) {
      std::cerr << " no (nobody can answer: the input is not a terminal)\n";
      return false;
    }
    std::cerr << " [y/N] " << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y" || answer == "yes";
  };
}

std::string password_for(const std::string& purpose) {
  if (const char* const given = std::getenv("ATTNLAB_KEY_PASSWORD")) return given;
  if (::isatty(STDIN_FILENO) == 0) return "";
  std::cerr << purpose << ": " << std::flush;
  const NoEcho silent;
  std::string password;
  std::getline(std::cin, password);
  std::cerr << "\n";
  return password;
}

std::string new_password() {
  const std::string password = password_for("password of the new key (empty: none)");
  const bool typed = std::getenv("ATTNLAB_KEY_PASSWORD") == nullptr && !password.empty();
  if (typed && password_for("the same once more") != password) {
    throw ConfigError("the two passwords differ; no key was made");
  }
  return password;
}

}  // namespace attnlab

/// What the program calls. @throws attnlab::Error
extern "C" __attribute__((visibility("default"))) int attnlab_sharing(const std::string& command,
                                                                      const attnlab::Words& words) {
  using namespace attnlab;  // NOLINT: the one function outside
  sharing::start_sodium();
  static const std::map<std::string, int (*)(const Words&)> commands = {
      {"plugin pack", plugin_pack_command},
      {"plugin install", plugin_install_command},
      {"plugin upgrade", plugin_upgrade_command},
      {"plugin remove", plugin_remove_command},
      {"plugin verify", plugin_verify_command},
      {"plugin rollback", plugin_rollback_command},
      {"plugin rebuild", plugin_rebuild_command},
      {"plugin search", plugin_search_command},
      {"list installed", list_installed_command},
      {"key", key_command},
      {"index", index_command},
      {"suite pack", suite_pack_command},
      {"reproduce", reproduce_command}};
  return commands.at(command)(words);
}
