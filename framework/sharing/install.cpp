#include "framework/sharing/install.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/experiment/identity.h"
#include "framework/sharing/foreign_json.h"

namespace attnlab::sharing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// An installation under way, in its staging folder.
struct Making {
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
    std::ofstream(log(), std::ios::app) << "==== " << next << "\n";
  }
};

void check_version_goes_up(const Bundle& bundle, const std::optional<Installed>& active,
                           const Keyring& keys, const InstallOptions& options) {
  if (options.allow_downgrade) return;
  const Contents& contents = bundle.contents;
  const std::string highest = keys.highest(contents.id.str());
  const std::string newest =
      active && (highest.empty() || compare_versions(active->version, highest) > 0)
          ? active->version
          : highest;
  if (!newest.empty() && compare_versions(contents.version, newest) < 0) {
    throw TrustError(
        fmt::format("{}: REFUSED: {} was installed here; an older version may bring back "
                    "what was mended since (--allow-downgrade takes it)",
                    bundle.label(), newest));
  }
  if (active && active->version == contents.version && active->bundle != bundle.sha256) {
    throw TrustError(
        fmt::format("{}: REFUSED: another bundle of this very version is installed "
                    "(--allow-downgrade takes it)",
                    bundle.label()));
  }
}

std::vector<ArchiveFile> files_below(const Bundle& bundle, const std::string& folder) {
  std::vector<ArchiveFile> some;
  for (const ArchiveFile& file : bundle.files) {
    if (file.path.rfind(folder + "/", 0) == 0) some.push_back(file);
  }
  return some;
}

void take_library(Making& making) {
  const std::string name = making.bundle.contents.id.name + ".so";
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
  fs::copy_file(made, making.library);
  making.built = "source";
}

json without_stamp(const std::string& manifest) {
  json parsed = parse_json(manifest);
  parsed.erase("stamp");
  return parsed;
}

/// The library must be what the bundle says that it is.
void check_manifest(Making& making) {
  making.begin("manifest");
  const Manifest manifest = read_manifest(making.library);
  const Contents& contents = making.bundle.contents;
  const std::string found =
      fmt::format("{} {} {}", name_of(manifest.kind), manifest.id, manifest.version);
  const std::string said =
      fmt::format("{} {} {}", contents.kind, contents.id.str(), contents.version);
  if (found != said) {
    throw BundleError(fmt::format("the library is {}, the bundle says {}", one_line(found), said));
  }
  if (without_stamp(manifest.json) != without_stamp(making.bundle.file("manifest.json").bytes)) {
    throw BundleError("the library's manifest is not the one in the bundle");
  }
  const auto differences = stamp_differences(making.tools.host, manifest.stamp);
  if (!differences.empty()) {
    throw BundleError("the library does not fit this attnlab: " + join(differences, "; "));
  }
  making.tools.check_name(manifest, making.library);
}

void try_library(Making& making) {
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

/// Where a failed installation's log stays.
std::string keep_log(const Making& making, const Store& store) {
  std::error_code error;
  fs::create_directories(store.places().logs(), error);
  const std::string path =
      fmt::format("{}/install-{}-{}-{}.txt", store.places().logs(), making.bundle.contents.id.lab,
                  making.bundle.contents.id.name, time_text());
  fs::copy_file(making.log(), path, fs::copy_options::overwrite_existing, error);
  return error ? "" : path;
}

/// All steps from the bundle in memory to the plugin in use; the lock is held.
Installed make(const Bundle& bundle, const std::string& bytes, const std::string& replaces,
               const Store& store, const InstallTools& tools, const InstallOptions& options) {
  Making making{bundle, tools, options, store.new_staging()};
  try {
    making.begin("unpack");
    write_files({{"bundle.attnlab", bytes, false}}, making.folder);
    take_library(making);
    check_manifest(making);
    try_library(making);
    making.begin("record");
    fs::remove_all(making.work());
    Installed one;
    one.folder = making.folder;
    one.id = bundle.contents.id;
    one.kind = bundle.contents.kind;
    one.version = bundle.contents.version;
    one.bundle = bundle.sha256;
    one.library_hash = file_hash(making.library);
    one.key = bundle.signer ? bundle.signer->key.id_text() : "";
    one.replaces = replaces;
    one.built = making.built;
    one.kit = options.kit;
    one.date = time_text();
    write_record(one);
    making.begin("activate");
    return store.activate(making.folder, one);
  } catch (const std::exception& error) {
    const std::string log = keep_log(making, store);
    std::error_code ignored;
    fs::remove_all(making.folder, ignored);
    throw InstallError(bundle.label(), making.step, error.what(), log);
  }
}

std::string entry_name(const std::optional<Installed>& one) {
  return one ? fs::path(one->folder).filename().string() : "";
}

}  // namespace

InstallError::InstallError(const std::string& label, const std::string& step,
                           const std::string& reason, const std::string& log)
    : Error(fmt::format("{}: step '{}' failed: {}; nothing was installed{}", label, step, reason,
                        log.empty() ? "" : "; the log: " + log)) {}

void check_trust(const Bundle& bundle, Keyring& keys, const InstallOptions& options) {
  const std::string label = bundle.label(), lab = bundle.contents.id.lab;
  if (bundle.signer) return keys.admit(*bundle.signer, label, options.policy, options.ask);
  refuse_reserved(lab, label);
  const bool allowed = options.policy.unsigned_bundles == Rule::allow;
  if (!keys.keys_of(lab).empty() && !allowed) {
    throw TrustError(
        fmt::format("{}: REFUSED: it is not signed, and lab '{}' has a key here; ask the "
                    "lab for the signed one",
                    label, lab));
  }
  const std::string question = fmt::format(
      "{} is not signed: nobody vouches for it. Its code will run with your rights. "
      "Install it?",
      label);
  if (permits(options.policy.unsigned_bundles, options.ask, question)) return;
  throw TrustError(
      fmt::format("{}: it is not signed, and the policy does not let it in; --yes, or "
                  "`unsigned: allow` in policy.yaml",
                  label));
}

Installed install(const std::string& bytes, const std::string& origin, const Store& store,
                  Keyring& keys, const InstallTools& tools, const InstallOptions& options) {
  Bundle bundle;
  try {
    bundle = parse_bundle(bytes);
  } catch (const BundleError& damage) {
    throw BundleError(fmt::format("{}: {}", origin, damage.what()));
  }
  if (bundle.contents.type != "plugin") {
    throw BundleError(
        fmt::format("{}: holds a result, no plugin; attnlab reproduce FILE runs it", origin));
  }
  if (!options.expected_sha256.empty() && options.expected_sha256 != bundle.sha256) {
    throw TrustError(fmt::format("{}: REFUSED: {} has the hash {}, expected {}", origin,
                                 bundle.label(), bundle.sha256, options.expected_sha256));
  }
  check_trust(bundle, keys, options);
  const StoreLock lock(store.places(), [&] {
    options.say("another process is changing the installed plugins; waiting for it");
  });
  store.clean();
  const std::optional<Installed> active = store.find(bundle.contents.id.str());
  if (active && active->bundle == bundle.sha256 && damage_of(*active).empty() &&
      stamp_differences(tools.host, read_manifest(active->library()).stamp).empty()) {
    options.say(active->label() + " is installed already");
    return *active;
  }
  check_version_goes_up(bundle, active, keys, options);
  Installed made = make(bundle, bytes, entry_name(active), store, tools, options);
  keys.note_version(made.id.str(), made.version);
  store.clean();
  return made;
}

Installed rebuild(const Installed& installed, const Store& store, const InstallTools& tools,
                  const InstallOptions& options) {
  const StoreLock lock(store.places());
  const std::string bytes = read_bundle_bytes(installed.bundle_file());
  const Bundle bundle = parse_bundle(bytes);
  if (bundle.sha256 != installed.bundle) {
    throw TrustError(fmt::format("{}: REFUSED: {} was altered since it was installed",
                                 installed.label(), installed.bundle_file()));
  }
  // What it took the place of stays what one can go back to.
  return make(bundle, bytes, installed.replaces, store, tools, options);
}

Installed roll_back(const Installed& installed, const Store& store) {
  const StoreLock lock(store.places());
  const std::optional<Installed> earlier = store.before(installed);
  if (!earlier) {
    throw ConfigError(
        fmt::format("{}: there is no earlier version to go back to", installed.label()));
  }
  const std::string damage = damage_of(*earlier);
  if (!damage.empty()) throw TrustError(fmt::format("{}: REFUSED: {}", earlier->label(), damage));
  store.link(*earlier);
  return *earlier;
}

}  // namespace attnlab::sharing
