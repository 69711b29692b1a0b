#include "framework/sharing/install.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/experiment/installed.h"
#include "framework/manifest/python_plugin.h"
#include "framework/sharing/binaries.h"
#include "framework/sharing/foreign_json.h"
#include "framework/sharing/install_checks.h"

namespace attnlab::sharing {
namespace {

namespace fs = std::filesystem;

/// Whether a bundle holds a Python file, which nothing has to build.
bool is_python(const Bundle& bundle) {
  const std::string path = fmt::format("python/{}.py", bundle.contents.id.name);
  return std::any_of(bundle.files.begin(), bundle.files.end(),
                     [&](const ArchiveFile& file) { return file.path == path; });
}

/// An installation under way, in its staging folder.
struct Staging {
  const Bundle& bundle;
  const InstallTools& tools;
  const InstallOptions& options;
  std::string folder;  ///< staging
  std::string step = "unpack";
  std::string library = {};
  std::string built = {};

  std::string log() const { return folder + "/log.txt"; }
  std::string work() const { return folder + "/work"; }
  void begin(const std::string& next) {
    step = next;
    options.at_step(next);
    LineWriter(log()).line("==== " + next);
  }
};

std::vector<ArchiveFile> files_below(const Bundle& bundle, const std::string& folder) {
  std::vector<ArchiveFile> some;
  for (const ArchiveFile& file : bundle.files) {
    if (file.path.rfind(folder + "/", 0) == 0) some.push_back(file);
  }
  return some;
}

void take_library(Staging& making) {
  const std::string name = making.bundle.contents.id.name + ".so";
  if (is_python(making.bundle)) {
    write_files(files_below(making.bundle, "python"), making.folder);
    making.library = fmt::format("{}/python/{}.py", making.folder, making.bundle.contents.id.name);
    making.built = "python";
    return;
  }
  making.library = making.folder + "/" + name;
  for (const Binary& binary : making.bundle.contents.binaries) {
    if (making.options.from_source) break;
    const auto differences = stamp_differences(making.tools.host, binary.stamp);
    if (!differences.empty()) {
      making.options.say(fmt::format("binary {}: refused by its stamp: {}", printable(binary.path),
                                     one_line(join(differences, "; "))));
      continue;
    }
    making.begin("binary");
    write_files({{name, making.bundle.file(binary.path).bytes, false}}, making.folder);
    making.built = "binary";
    return;
  }
  making.begin("build");
  making.options.say("building from source");
  write_files(files_below(making.bundle, "source"), making.work());
  const std::string made =
      making.tools.build(making.work() + "/source", making.work() + "/build", making.log());
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(made, error))) {
    throw BundleError("the build made no library");
  }
  write_files({{name, read_text(made), false}}, making.folder);
  making.built = "source";
}

/// Whether two manifests of one Python file say the same. An attnlab with more traits names those
/// that the file does not have, too.
bool same_but_for_lacks(const std::string& first, const std::string& second) {
  const auto without_lacks = [](const std::string& text) {
    nlohmann::json manifest = parse_json(text);
    if (!manifest.contains("traits")) return manifest;
    nlohmann::json honoured = nlohmann::json::array();
    for (const auto& [trait, value] : manifest.at("traits").items()) {
      if (value == true) honoured.push_back(trait);
    }
    manifest["traits"] = std::move(honoured);
    return manifest;
  };
  return without_lacks(first) == without_lacks(second);
}

/// Puts the manifest beside a Python file, by which the host finds it. The file must be what the
/// bundle says, and import nothing but what is in the bundle.
void describe_python(const Staging& making) {
  const std::string& packed = making.bundle.file("manifest.json").bytes;
  const Manifest said = parse_manifest(packed);
  const PythonFile& file = python_file({making.library, said.python_class}, said.kind);
  if (!file.outside.empty()) throw BundleError(file.outside.front());
  const std::string own = packed_manifest(file, making.bundle.contents.id.lab);
  if (!same_but_for_lacks(own, packed)) {
    throw BundleError("the Python file is not what the manifest in the bundle says");
  }
  for (const ArchiveFile& one : files_below(making.bundle, "python")) {
    const std::string path = one.path.substr(one.path.find('/') + 1);
    const auto& sources = file.sources;
    if (std::find(sources.begin(), sources.end(), path) != sources.end()) continue;
    throw BundleError(fmt::format("'{}' is a file that {}.py does not import", one.path,
                                  making.bundle.contents.id.name));
  }
  write_file(manifest_beside(making.library), own);
}

/// The library must be what the bundle says that it is.
void check_manifest(Staging& making) {
  making.begin("manifest");
  const bool python = making.built == "python";
  if (python) describe_python(making);
  const Manifest manifest = read_manifest(making.library);
  check_says(making.bundle.contents, manifest);
  if (!python && !same_but_for_stamp(manifest.json, making.bundle.file("manifest.json").bytes)) {
    throw BundleError("the library's manifest is not the one in the bundle");
  }
  const auto differences = stamp_differences(making.tools.host, manifest);
  if (!differences.empty()) {
    throw BundleError("the library does not fit this attnlab: " + join(differences, "; "));
  }
  making.tools.check_name(manifest, making.library);
}

void try_library(Staging& making) {
  if (making.options.kit) {
    making.begin("kit");
    making.options.say("checking it with the conformance kit");
    make_folder(making.work());
    write_file(making.folder + "/conformance.json",
               making.tools.test(making.library, making.work(), making.log()));
  }
  making.begin("numbers");
  make_folder(making.work());
  making.options.say(
      making.tools.compare(making.bundle, making.library, making.work(), making.log()));
}

/// Cuts a log to its end, where the reason stands.
void shorten_log(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error || size <= kMost) return;
  std::string end(kMost, '\0');
  std::ifstream in(path, std::ios::binary);
  in.seekg(-static_cast<std::streamoff>(kMost), std::ios::end);
  in.read(end.data(), static_cast<std::streamsize>(kMost));
  end.resize(static_cast<std::size_t>(in.gcount()));
  write_file(path, fmt::format("(the first {} bytes were left out)\n", size - kMost) + end);
}

/// Removes all but the newest logs of failed installations.
void clean_logs(const std::string& folder) {
  constexpr std::size_t kMost = 20;
  std::vector<std::pair<fs::file_time_type, fs::path>> all;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    if (file.path().filename().string().rfind("install-", 0) != 0) continue;
    all.emplace_back(file.last_write_time(error), file.path());
  }
  std::sort(all.rbegin(), all.rend());
  for (std::size_t i = kMost; i < all.size(); ++i) fs::remove(all[i].second, error);
}

/// Where a failed installation's log stays.
std::string keep_log(const Staging& making, const Store& store) {
  std::error_code error;
  fs::create_directories(store.places().logs(), error);
  const std::string path =
      fmt::format("{}/install-{}-{}-{}.txt", store.places().logs(), making.bundle.contents.id.lab,
                  making.bundle.contents.id.name, time_text());
  try {
    shorten_log(making.log());
  } catch (const FileError&) {  // a full disk: then as it is, if that can be
  }
  bool kept = true;
  try {
    write_file(path, read_text(making.log()));
  } catch (const FileError&) {
    kept = false;
  }
  clean_logs(store.places().logs());
  return kept ? path : "";
}

/// What is made into an entry of the store.
struct InstallSource {
  const Bundle& bundle;
  const std::string& bytes;         ///< of its file
  std::string replaces;             ///< the entry that it takes the place of
  std::optional<KeyCard> newcomer;  ///< whose key may have to be pinned; of what is new here
};

/// All steps from the bundle in memory to the plugin in use; the lock is held.
Installed make(const InstallSource& given, const Store& store, Keyring& keys,
               const InstallTools& tools, const InstallOptions& options) {
  const Bundle& bundle = given.bundle;
  Staging making{bundle, tools, options, store.new_staging()};
  try {
    making.begin("unpack");
    write_files({{"bundle.attnlab", given.bytes, false}}, making.folder);
    take_library(making);
    check_manifest(making);
    try_library(making);
    making.begin("record");
    remove_tree(making.work());
    shorten_log(making.log());
    Installed one;
    one.folder = making.folder;
    one.id = bundle.contents.id;
    one.kind = bundle.contents.kind;
    one.version = bundle.contents.version;
    one.bundle = bundle.sha256;
    one.library_hash = installed_hash(making.library);
    one.key = signer_of(bundle);
    one.replaces = given.replaces;
    one.built = making.built;
    one.kit = options.kit;
    one.for_now = options.for_now;
    one.date = time_text();
    write_record(one);
    making.begin("activate");
    Installed active;
    keys.note_installation({one.id, one.version, one.bundle}, given.newcomer,
                           [&] { active = store.activate(making.folder, one); });
    return active;
  } catch (const Interrupted&) {
    remove_tree(making.folder);
    throw;
  } catch (const std::exception& error) {
    const std::string log = keep_log(making, store);
    std::error_code ignored;
    remove_tree(making.folder);
    throw InstallError(bundle.label(), making.step, error.what(), log);
  }
}

std::string entry_name(const std::optional<Installed>& one) {
  return one ? fs::path(one->folder).filename().string() : "";
}

/// Checks of the first step, before anything is written and there is a log.
void verify(const std::string& origin, const std::function<void()>& checks) {
  const auto named = [&](const Error& error) {
    return fmt::format("{}: step 'verify' failed: {}; nothing was installed", origin, error.what());
  };
  try {
    checks();
  } catch (const BundleError& damage) {
    throw BundleError(named(damage));
  } catch (const TrustError& refusal) {
    throw TrustError(named(refusal));
  } catch (const ConfigError& error) {
    throw ConfigError(named(error));
  }
}

}  // namespace

InstallError::InstallError(const std::string& label, const std::string& step,
                           const std::string& reason, const std::string& log)
    : Error(fmt::format("{}: step '{}' failed: {}; nothing was installed{}", label, step, reason,
                        log.empty() ? "" : "; the log: " + log)) {}

Installed install(const std::string& bytes, const std::string& origin, const Store& store,
                  Keyring& keys, const InstallTools& tools, const InstallOptions& options) {
  Bundle bundle;
  verify(origin, [&] {
    bundle = parse_bundle(bytes);
    if (bundle.contents.type != "plugin") {
      throw BundleError("holds a result, no plugin; attnlab reproduce FILE runs it");
    }
    check_expected(bundle, options);
    check_signer(bundle, keys, options);
  });
  const StoreLock lock(store.places(), options.say);
  store.clean();
  verify(origin, [&] {
    store.check_name_is_free(bundle.contents.id, bundle.contents.kind, is_python(bundle));
  });
  const std::optional<Installed> active = store.find(bundle.contents.id.str());
  const bool same = active && active->bundle == bundle.sha256;
  if (same && !options.from_source && (active->kit || !options.kit) && damage_of(*active).empty() &&
      stamp_differences(tools.host, read_manifest(active->library())).empty()) {
    options.say(active->label() + " is installed already");
    keys.note_installation({active->id, active->version, active->bundle}, bundle.signer, nullptr);
    return *active;
  }
  verify(origin, [&] { check_version_goes_up(bundle, active, keys, options); });
  // Made anew, the same bundle leads back to where the first one led.
  const std::string before = same ? active->replaces : entry_name(active);
  Installed made = make({bundle, bytes, before, bundle.signer}, store, keys, tools, options);
  store.clean();
  return made;
}

namespace {

/// The plugin in use, read again now that the lock is held.
Installed again(const Installed& installed, const Store& store) {
  const std::optional<Installed> now = store.find(installed.id.str());
  if (!now) throw ConfigError(installed.label() + ": is not installed any more");
  if (!now->problem.empty()) throw BundleError(now->problem);
  return *now;
}

}  // namespace

Installed rebuild(const Installed& installed, const Store& store, Keyring& keys,
                  const InstallTools& tools, const InstallOptions& options) {
  const StoreLock lock(store.places(), options.say);
  store.clean();
  const Installed now = again(installed, store);
  const std::string bytes = read_bundle_bytes(now.bundle_file());
  const Bundle bundle = parse_bundle(bytes);
  if (bundle.sha256 != now.bundle || signer_of(bundle) != now.key) {
    throw TrustError(fmt::format("{}: REFUSED: {} was altered since it was installed", now.label(),
                                 now.bundle_file()));
  }
  check_still_trusted(now, keys, options);
  // What it took the place of stays what one can go back to.
  Installed made = make({bundle, bytes, now.replaces, std::nullopt}, store, keys, tools, options);
  store.clean();
  return made;
}

Installed roll_back(const Installed& installed, const Store& store, const Keyring& keys,
                    const InstallOptions& options) {
  const StoreLock lock(store.places(), options.say);
  store.clean();
  const Installed now = again(installed, store);
  const std::optional<Installed> earlier = store.before(now);
  if (!earlier) {
    throw ConfigError(fmt::format("{}: there is no earlier version to go back to", now.label()));
  }
  const std::string damage = damage_of(*earlier);
  if (!damage.empty()) throw TrustError(fmt::format("{}: REFUSED: {}", earlier->label(), damage));
  check_still_trusted(*earlier, keys, options);
  store.link(*earlier);
  store.clean();
  return *earlier;
}

}  // namespace attnlab::sharing
