// The commands that share plugins and results: a module of its own, loaded when one of them is
// called, so that no other command loads libarchive and libsodium.
#pragma once

#include <string>

#include "framework/sharing/install.h"
#include "framework/sharing/keyring.h"
#include "runner/arguments.h"

namespace attnlab {

int plugin_pack_command(const Words& words);
int plugin_install_command(const Words& words);
int plugin_upgrade_command(const Words& words);
int plugin_remove_command(const Words& words);
int plugin_verify_command(const Words& words);
int plugin_rollback_command(const Words& words);
int plugin_rebuild_command(const Words& words);
int plugin_search_command(const Words& words);
int list_installed_command(const Words& words);
int key_command(const Words& words);
int index_command(const Words& words);
int suite_pack_command(const Words& words);
int reproduce_command(const Words& words);

/// The lab that packs: `--lab`, or the only one with a key here. @throws ConfigError.
std::string lab_of(const Arguments& arguments, const sharing::Keyring& keys);

/// Asks on the terminal; without one the answer is no. @param yes  `--yes` was given
sharing::Ask asker(bool yes);

/// A key's password: $ATTNLAB_KEY_PASSWORD, else asked for on the terminal; empty without either.
std::string password_for(const std::string& purpose);

/// A new key's password; on a terminal asked for twice. @throws ConfigError where the two differ.
std::string new_password();

}  // namespace attnlab
