// attnlab plugin pack: a folder, or a Python file, becomes one file that another lab can install.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/manifest/discovery.h"
#include "framework/manifest/python_plugin.h"
#include "framework/sharing/binaries.h"
#include "framework/sharing/expected.h"
#include "framework/sharing/source_files.h"
#include "runner/process.h"
#include "runner/sharing/plugin_pack.h"
#include "runner/sharing/sharing.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;
using nlohmann::json;
using sharing::ArchiveFile;
using sharing::BundleError;

constexpr const char* kNothingPacked =
    "interrupted; nothing was packed, and nothing is left behind\n";

Usage pack_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab plugin pack FOLDER|FILE.py[:CLASS] [--lab LAB] [--out DIR] [--binary]\n"
      "       [--add-binary FILE]... [--unsigned] [--no-kit] [--time-limit SECONDS] [--jobs N]\n"
      "       [--readable DIR ...]";
  usage.about =
      "Writes NAME-VERSION.attnlab: the folder's source, licence and tests, the manifest, the\n"
      "conformance report, expected numbers for a check elsewhere, and a list of all files with\n"
      "hashes; signed, if there is a key of the plugin's lab (attnlab key new LAB). The source\n"
      "is unpacked, built and checked first, in a process without network that writes only in\n"
      "its own folder: a source that does not build is not packed. The same folder gives the\n"
      "same bytes. Left out: names that begin with a dot, build folders, other bundles. A\n"
      "Python file is packed with what it imports from its own folder; nothing is built. Its\n"
      "class must say its version and licence. --lab is needed unless there is exactly one key\n"
      "here.";
  usage.options.add_options()("out",
                              po::value<std::string>()->value_name("DIR")->default_value("."),
                              "folder that the file is written to")(
      "binary", "include the built library, for machines with the same stamp")(
      "add-binary", po::value<Words>()->value_name("FILE")->composing(),
      "include a library that was built from the same source for another attnlab or LibTorch; its "
      "manifest must be the same")("unsigned", "do not sign, although there is a key")(
      "no-kit", "skip the conformance kit; the bundle says so")(
      "lab", po::value<std::string>()->value_name("LAB"), "lab of a Python file's plugin");
  add_workshop_options(usage);
  usage.fewest_words = usage.most_words = 1;
  return usage;
}

/// What a check found, without what differs from time to time.
std::string steady_report(const std::string& report) {
  const json in = json::parse(report);
  json out = {
      {"plugin", in.at("plugin")}, {"version", in.at("version")}, {"checks", json::array()}};
  for (const json& check : in.at("checks")) {
    out["checks"].push_back({{"check", check.at("check")}, {"outcome", check.at("outcome")}});
  }
  return out.dump(1) + "\n";
}

/// The library that was built from the files, and what was found out about it.
struct BuiltLibrary {
  std::string library;
  Manifest manifest;
  std::vector<ArchiveFile> found;  ///< manifest, report, numbers
};

void add_case(const std::string& name, const std::string& options, const BuiltLibrary& made,
              Workshop& workshop, const std::string& work, const std::string& log,
              std::vector<ArchiveFile>& out) {
  const std::string folder = work + "/numbers/" + name, result = folder + "/result";
  sharing::make_folder(result);
  const std::string tensors = sharing::made_up_tensors();
  write_file(folder + "/in.safetensors", tensors);
  workshop.apply(made.library, made.manifest.id, options, folder + "/in.safetensors",
                 result + "/out.safetensors", log);
  const std::string place = "expected/" + name + "/";
  out.push_back({place + "in.safetensors", tensors});
  out.push_back({place + "out.safetensors", read_made(result + "/out.safetensors")});
  out.push_back({place + "options.json", options + "\n"});
}

/// The folder's own cases, or made-up ones of an attention.
std::string add_numbers(const std::vector<ArchiveFile>& own, BuiltLibrary& made, Workshop& workshop,
                        const std::string& work, const std::string& log) {
  if (!own.empty()) {
    made.found.insert(made.found.end(), own.begin(), own.end());
    sharing::Bundle bundle;
    bundle.files = own;
    bundle.contents.id = sharing::parse_id(made.manifest.id);
    return workshop.compare(bundle, made.library, work, log);
  }
  if (made.manifest.kind != Kind::attention) return "no expected numbers: those are of attentions";
  try {
    add_case("plain", "{}", made, workshop, work, log, made.found);
    const auto causal = made.manifest.traits.find("causal");
    if (causal != made.manifest.traits.end() && causal->second) {
      add_case("causal", R"({"causal":true})", made, workshop, work, log, made.found);
    }
  } catch (const BundleError& error) {
    return "no expected numbers: it does not take made-up tensors; put cases below expected/ (" +
           one_line(error.what(), 300) + ")";
  }
  return "expected numbers: computed on made-up tensors";
}

/// The kit, and numbers that it must give elsewhere.
void check_it(const std::vector<ArchiveFile>& own_numbers, bool kit, BuiltLibrary& made,
              Workshop& workshop, const std::string& work) {
  const std::string log = work + "/log.txt";
  if (kit) {
    std::cerr << "checking it with the conformance kit\n";
    made.found.push_back(
        {"conformance.json", steady_report(workshop.test(made.library, work, log))});
  }
  std::cerr << add_numbers(own_numbers, made, workshop, work, log) << "\n";
}

BuiltLibrary make(const std::vector<ArchiveFile>& source,
                  const std::vector<ArchiveFile>& own_numbers, bool kit, Workshop& workshop,
                  const std::string& work) {
  const std::string log = work + "/log.txt";
  write_files(source, work + "/source");
  BuiltLibrary made;
  const std::string built = workshop.build(work + "/source", work + "/build", log);
  made.manifest = read_manifest(built);
  const std::string name = made.manifest.name;
  sharing::make_folder(work + "/library");
  made.library = work + "/library/" + name + ".so";
  write_file(made.library, read_text(built));
  json manifest = json::parse(made.manifest.json);
  manifest.erase("stamp");
  made.found.push_back({"manifest.json", manifest.dump(1) + "\n"});
  check_it(own_numbers, kit, made, workshop, work);
  return made;
}

sharing::Contents contents_of(const Manifest& manifest) {
  sharing::Contents contents;
  contents.type = "plugin";
  contents.id = sharing::parse_id(manifest.id);
  contents.version = manifest.version;
  sharing::check_version(manifest.version);
  contents.kind = name_of(manifest.kind);
  contents.summary = manifest.summary;
  contents.citation = manifest.citation;
  contents.licence = manifest.licence;
  contents.attnlab = ATTNLAB_VERSION;
  return contents;
}

/// The keys that sign here. Their passwords are asked for before the long build, of the labs whose
/// prefix stands in the source; which of them it is, only the built library says.
class Signers {
 public:
  Signers(const sharing::Keyring& keys, const std::vector<ArchiveFile>& source) : keys_(keys) {
    for (const sharing::KnownKey& known : keys.keys()) {
      const std::string prefix = "\"" + known.lab + "/";  // as ids are written there
      const bool named = std::any_of(source.begin(), source.end(), [&](const ArchiveFile& file) {
        return file.bytes.find(prefix) != std::string::npos;
      });
      if (named && keys.has_secret(known.lab)) unlock(known.lab);
    }
  }
  const sharing::SecretKey& unlock(const std::string& lab) {
    if (const auto found = open_.find(lab); found != open_.end()) return found->second;
    const std::string password =
        keys_.secret_is_encrypted(lab) ? password_for("password of the key of " + lab) : "";
    return open_.emplace(lab, keys_.secret(lab, password)).first->second;
  }

 private:
  const sharing::Keyring& keys_;
  std::map<std::string, sharing::SecretKey> open_;
};

/// The bundle's bytes, signed where the lab has a key here.
std::string seal(const sharing::Contents& contents, std::vector<ArchiveFile> files,
                 const sharing::Keyring& keys, Signers* signers) {
  const std::string lab = contents.id.lab;
  if (signers == nullptr || !keys.has_secret(lab)) {
    std::cerr << "not signed"
              << (signers == nullptr
                      ? ""
                      : fmt::format(": there is no key of lab '{0}' here (attnlab key new {0})",
                                    lab))
              << "\n";
    return write_bundle(contents, std::move(files), std::nullopt);
  }
  const sharing::SecretKey& key = signers->unlock(lab);
  std::cerr << "signed with key " << key.public_key().id_text() << "\n";
  return write_bundle(contents, std::move(files), sharing::Signer{&key, keys.own_card(lab)});
}

/// What a bundle must know of a Python file, and what others would lack.
void refuse_unfinished(const PythonFile& file) {
  const Manifest& manifest = *file.candidate.manifest;
  const std::string path = plain_file(file.candidate.path);
  if (!file.outside.empty()) throw PluginError(file.outside.front());
  const auto need = [&](const char* what, const char* example) {
    throw PluginError(fmt::format("{}: its class says no {}; write in it {} = \"{}\"", path, what,
                                  what, example));
  };
  // Where there is none, it is made of the contents.
  if (manifest.version == file.contents.substr(0, 8)) need("version", "1.0.0");
  if (manifest.licence.empty()) need("licence", "Apache-2.0");
  if (manifest.name == kPython) {
    throw PluginError(path + ": `use: python` means something else; call the file otherwise");
  }
}

/// As it will lie where it is installed.
BuiltLibrary lay_out(const PythonFile& file, const std::string& lab, const std::string& work) {
  const std::string folder = work + "/python";
  for (const std::string& source : file.sources) {
    sharing::check_path(source);
    const std::string copy = folder + "/" + source;
    sharing::make_folder(copy.substr(0, copy.rfind('/')));
    write_file(copy, read_text(file.folder + "/" + source));
  }
  BuiltLibrary made;
  made.library = folder + "/" + file.sources.front();
  const std::string manifest = packed_manifest(file, lab);
  write_file(manifest_beside(made.library), manifest);
  made.manifest = read_manifest(made.library);
  made.found.push_back({"manifest.json", manifest});
  return made;
}

}  // namespace

PackedBundle pack_python(const PythonName& name, const std::string& lab,
                         const PackOptions& options) {
  const PythonFile& file = python_file(name);
  refuse_unfinished(file);
  static_cast<void>(sharing::parse_id(lab + "/" + file.candidate.manifest->name));
  const sharing::Keyring keys(sharing::Places::of_this_user().keys());
  std::optional<Signers> signers;
  if (options.sign) signers.emplace(keys, std::vector<ArchiveFile>());
  if (signers && keys.has_secret(lab))
    signers->unlock(lab);  // its password, before what takes long
  Workshop workshop(options.workshop);
  sharing::Contents contents;
  std::vector<ArchiveFile> files;
  try {
    const SignalsNoted noted;
    const ScratchFolder scratch;
    BuiltLibrary made = lay_out(file, lab, scratch.path());
    check_it({}, options.kit, made, workshop, scratch.path());
    contents = contents_of(made.manifest);
    files = std::move(made.found);
  } catch (const Interrupted&) {
    std::cerr << kNothingPacked;
    throw;
  }
  for (const std::string& source : file.sources) {
    files.push_back({"python/" + source, read_text(file.folder + "/" + source)});
  }
  return {bundle_name(contents),
          seal(contents, std::move(files), keys, signers ? &*signers : nullptr)};
}

PackedBundle pack_folder(const std::string& folder, const PackOptions& options) {
  sharing::SourceFiles found = sharing::source_files(folder);
  const sharing::Keyring keys(sharing::Places::of_this_user().keys());
  std::optional<Signers> signers;
  if (options.sign) signers.emplace(keys, found.source);
  Workshop workshop(options.workshop);
  sharing::Contents contents;
  std::vector<ArchiveFile> files;
  try {
    const SignalsNoted noted;
    const ScratchFolder scratch;
    std::cerr << fmt::format("building {} files from a clean unpacking\n", found.source.size());
    BuiltLibrary made = make(found.source, found.expected, options.kit, workshop, scratch.path());
    contents = contents_of(made.manifest);
    files = std::move(made.found);
    if (options.binary) add_binary(made.library, made.manifest, contents, files);
    for (const std::string& library : options.binaries) {
      add_binary(library, made.manifest, contents, files);
    }
  } catch (const Interrupted&) {
    std::cerr << kNothingPacked;
    throw;
  }
  for (ArchiveFile& file : found.source) {
    file.path = "source/" + file.path;
    files.push_back(std::move(file));
  }
  return {bundle_name(contents),
          seal(contents, std::move(files), keys, signers ? &*signers : nullptr)};
}

namespace {

sharing::Keyring own_keys() { return sharing::Keyring(sharing::Places::of_this_user().keys()); }

}  // namespace

int plugin_pack_command(const Words& words) {
  Usage usage = pack_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  PackOptions options;
  options.workshop = workshop_options(arguments);
  options.kit = !arguments.has("no-kit");
  options.binary = arguments.has("binary");
  if (arguments.has("add-binary")) options.binaries = arguments.options["add-binary"].as<Words>();
  for (const std::string& library : options.binaries) read_manifest(library);  // before the build
  options.sign = !arguments.has("unsigned");
  const std::string& source = arguments.words[0];
  const bool python = is_python_name(source);
  if (!python && arguments.has("lab")) {
    throw ConfigError("--lab is for a Python file; of a folder the source says whose plugin it is");
  }
  if (python && (options.binary || !options.binaries.empty())) {
    throw ConfigError("--binary, --add-binary: a Python file has no library; leave them out");
  }
  const PackedBundle packed =
      python ? pack_python(parse_python_name(source), lab_of(arguments, own_keys()), options)
             : pack_folder(source, options);
  const std::string path = arguments.text("out", ".") + "/" + packed.name;
  write_file(path, packed.bytes);
  std::cout << path << "\n";
  return kDone;
}

}  // namespace attnlab
