// Makes inputs for a fuzz target: mutations of its seeds, and of what it took before.
//
//   NAME_fuzz               for $ATTNLAB_FUZZ_SECONDS (2) seconds; the inputs follow from
//                           $ATTNLAB_FUZZ_SEED (1), only their number from the machine
//   NAME_fuzz FILE...       these inputs, once each
//
// A crash, an exception that is not a refusal, more than 10 seconds of work or 256 MiB for one
// input end the process; the input is kept in the working folder as NAME_fuzz.crash. This is a test
// of seconds, with whatever compiler; for hours libFuzzer makes the inputs (libfuzzer.cpp).
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>

#include "framework/base/random.h"
#include "tests/fuzz/fuzz.h"

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
extern "C" void __sanitizer_set_death_callback(void (*callback)());
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256"; }
#else
constexpr bool kSanitized = false;
#endif

namespace attnlab::fuzz {
namespace {

constexpr std::size_t kLargestInput = 1 << 16;
constexpr std::size_t kLargestCorpus = 512;
constexpr unsigned kSecondsForOne = 10;
constexpr rlim_t kMemory = rlim_t{256} << 20;

// ---- findings: what the process was trying when it died

std::string crash_path;
const std::string* trying = nullptr;

void keep_input() {
  if (trying == nullptr) return;
  const int file = ::open(crash_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  ssize_t written = ::write(file, trying->data(), trying->size());
  ::close(file);
  written = ::write(STDERR_FILENO, "fuzz: the input is in ", 22);
  written = ::write(STDERR_FILENO, crash_path.data(), crash_path.size());
  written = ::write(STDERR_FILENO, "\n", 1);
  (void)written;
}

void on_signal(int signal) {
  keep_input();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void watch(const std::string& crash) {
  crash_path = crash;
  static char stack[1 << 16];  // the usual one may have overflowed
  stack_t alternative{};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  ::sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGABRT, SIGVTALRM}) ::sigaction(signal, &action, nullptr);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(keep_input);
#else
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    ::sigaction(signal, &action, nullptr);
  }
#endif
}

/// So much more than now; the sanitizer has a limit of its own.
void limit_memory() {
  if (kSanitized) return;
  std::ifstream sizes("/proc/self/statm");
  rlim_t pages = 0;
  if (!(sizes >> pages)) throw std::runtime_error("/proc/self/statm: cannot read");
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kMemory;
  if (::setrlimit(RLIMIT_AS, &limit) != 0) throw std::runtime_error("cannot limit the memory");
}

/// Of this process's own work, so that a busy machine makes no findings. 0: none.
void limit_time(unsigned seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  ::setitimer(ITIMER_VIRTUAL, &timer, nullptr);
}

/// @returns whether the code under test took the input.
bool try_one(const std::string& input) {
  trying = &input;
  limit_time(kSecondsForOne);
  const int result = try_input(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  limit_time(0);
  trying = nullptr;
  return result == 0;
}

// ---- mutations

struct Material {
  std::vector<std::string> corpus;
  std::vector<std::string> words;
};

const std::string& pick(const std::vector<std::string>& list, Random& random) {
  return list[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(list.size())))];
}

std::size_t up_to(std::size_t most, Random& random) {
  return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(most) + 1));
}

void flip_bit(std::string& x, const Material&, Random& random) {
  if (x.empty()) return;
  char& byte = x[up_to(x.size() - 1, random)];
  byte = static_cast<char>(byte ^ (1 << random.below(8)));
}

void set_byte(std::string& x, const Material&, Random& random) {
  constexpr std::string_view kBytes("\0\1\x7f\x80\xff\"\\{}[]:,-.0159eE \n", 22);
  if (!x.empty()) x[up_to(x.size() - 1, random)] = kBytes[up_to(kBytes.size() - 1, random)];
}

void insert_bytes(std::string& x, const Material&, Random& random) {
  std::string bytes;
  for (std::size_t i = up_to(7, random) + 1; i > 0; --i) {
    bytes += static_cast<char>(random.below(256));
  }
  x.insert(up_to(x.size(), random), bytes);
}

void insert_word(std::string& x, const Material& material, Random& random) {
  if (!material.words.empty()) x.insert(up_to(x.size(), random), pick(material.words, random));
}

/// Some bytes one after the other: mostly few.
std::pair<std::size_t, std::size_t> run_of(const std::string& x, Random& random) {
  const std::size_t begin = up_to(x.size(), random);
  const std::size_t most = x.size() - begin;
  return {begin, up_to(random.below(4) == 0 ? most : std::min<std::size_t>(most, 16), random)};
}

void erase_run(std::string& x, const Material&, Random& random) {
  const auto [begin, count] = run_of(x, random);
  x.erase(begin, count);
}

void repeat_run(std::string& x, const Material&, Random& random) {
  const auto [begin, count] = run_of(x, random);
  const std::string run = x.substr(begin, count);
  const std::size_t at = up_to(x.size(), random);
  for (std::int64_t i = random.below(16) == 0 ? 200 : 1; i > 0; --i) x.insert(at, run);
}

void truncate(std::string& x, const Material&, Random& random) {
  x.resize(up_to(x.size(), random));
}

/// Another number where there is one.
void change_number(std::string& x, const Material&, Random& random) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr const char* kNumbers[] = {"0",
                                      "1",
                                      "-1",
                                      "2",
                                      "7",
                                      "255",
                                      "65536",
                                      "2147483648",
                                      "4294967296",
                                      "4611686018427387904",
                                      "9223372036854775807",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "1e400",
                                      "0.5",
                                      "007"};
  const std::size_t begin = x.find_first_of(kDigits, up_to(x.size(), random));
  if (begin == std::string::npos) return;
  const std::size_t end = std::min(x.find_first_not_of(kDigits, begin), x.size());
  const std::string number = random.below(2) == 0 ? kNumbers[up_to(std::size(kNumbers) - 1, random)]
                                                  : std::to_string(random.below(64));
  x.replace(begin, end - begin, number);
}

/// The beginning of one and the end of another.
void splice(std::string& x, const Material& material, Random& random) {
  const std::string& other = pick(material.corpus, random);
  x = x.substr(0, up_to(x.size(), random)) + other.substr(up_to(other.size(), random));
}

using Mutation = void (*)(std::string&, const Material&, Random&);
constexpr Mutation kMutations[] = {flip_bit, set_byte,   insert_bytes,  insert_word,   erase_run,
                                   truncate, repeat_run, change_number, change_number, splice};

std::string mutated(const Material& material, Random& random) {
  std::string x = pick(material.corpus, random);
  for (std::int64_t changes = 1 + random.below(4); changes > 0; --changes) {
    kMutations[up_to(std::size(kMutations) - 1, random)](x, material, random);
    if (x.size() > kLargestInput) x.resize(kLargestInput);  // repeating what repeats grows fast
  }
  return x;
}

// ---- what to run

std::int64_t number_from(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot read");
  return {std::istreambuf_iterator<char>(in), {}};
}

int run_mutations() {
  const Target given = target();
  Material material{given.seeds, given.words};
  std::int64_t sound = 0;
  for (const std::string& seed : given.seeds) sound += try_one(seed) ? 1 : 0;
  const std::int64_t seed = number_from("ATTNLAB_FUZZ_SEED", 1);
  const std::int64_t seconds = number_from("ATTNLAB_FUZZ_SECONDS", 2);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  Random random(static_cast<std::uint64_t>(seed));
  std::int64_t tried = 0, taken = 0;
  while (std::chrono::steady_clock::now() < end) {
    std::string input = mutated(material, random);
    if (given.repair != nullptr && random.below(2) == 0) given.repair(input);
    ++tried;
    if (!try_one(input)) continue;
    ++taken;
    if (material.corpus.size() < kLargestCorpus) {
      material.corpus.push_back(std::move(input));
    } else {  // the seeds stay
      const std::size_t others = material.corpus.size() - given.seeds.size();
      material.corpus[given.seeds.size() + up_to(others - 1, random)] = std::move(input);
    }
  }
  std::cout << "seed " << seed << ": " << tried << " inputs in " << seconds << " s, " << taken
            << " taken, the others refused\n";
  // Else nothing but one check was tried, or none.
  if (sound > 0 && taken > 0 && taken < tried) return 0;
  std::cerr << "fuzz: the target takes " << (taken == tried ? "everything" : "no input") << "\n";
  return 1;
}

int run(int argc, char** argv) {
  watch(std::filesystem::path(argv[0]).filename().string() + ".crash");
  limit_memory();
  if (argc == 1) return run_mutations();
  for (int i = 1; i < argc; ++i) {
    const std::string input = content_of(argv[i]);
    std::cout << argv[i] << ": " << (try_one(input) ? "taken" : "refused") << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace attnlab::fuzz

int main(int argc, char** argv) { return attnlab::fuzz::run(argc, argv); }
