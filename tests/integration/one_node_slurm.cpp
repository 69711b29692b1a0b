#include "tests/integration/one_node_slurm.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

namespace attnlab::testing {
namespace {

namespace fs = std::filesystem;

/// A port that nobody listens on now.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound = ::bind(socket, generic, size) == 0;
  const bool known = bound && ::getsockname(socket, generic, &size) == 0;
  ::close(socket);
  if (!known) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  const std::string text = name.data();
  return text.substr(0, text.find('.'));
}

std::string user_name() {
  const passwd* user = ::getpwuid(::geteuid());
  return user == nullptr ? std::to_string(::geteuid()) : user->pw_name;
}

std::string find_program(const std::string& name) {
  for (const char* folder : {"/usr/sbin/", "/usr/local/sbin/", "/usr/bin/", "/usr/local/bin/"}) {
    if (fs::exists(folder + name)) return folder + name;
  }
  return "";
}

bool wait_seconds(double seconds, const std::function<bool()>& condition) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  while (!condition()) {
    if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

}  // namespace

OneNodeSlurm::OneNodeSlurm() {
  for (const char* program : {"munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol"}) {
    if (!find_program(program).empty()) continue;
    problem_ = std::string("there is no program '") + program +
               "'; Debian: slurm-wlm and munge, or scripts/setup.sh --with slurm";
    return;
  }
  try {
    start();
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
}

OneNodeSlurm::~OneNodeSlurm() {
  if (problem_.empty()) {
    command({"scancel", "--user=" + user_name()});
    wait_seconds(10, [&] { return command({"squeue", "--noheader"}).out.empty(); });
  }
  // The last one to start is the first to go.
  while (!daemons_.empty()) {
    Process& daemon = *daemons_.back();
    daemon.send(SIGTERM);
    wait_seconds(5, [&] { return !daemon.running(); });
    daemons_.pop_back();  // kills it if need be
  }
}

std::map<std::string, std::string> OneNodeSlurm::environment() const {
  return {{"SLURM_CONF", folder_ / "slurm.conf"}};
}

Ended OneNodeSlurm::command(std::vector<std::string> words) const {
  return run({.words = std::move(words), .environment = environment()});
}

bool OneNodeSlurm::says(const std::vector<std::string>& words, const std::string& text) const {
  return wait_seconds(30, [&] { return command(words).out.find(text) != std::string::npos; });
}

void OneNodeSlurm::start() {
  // Munge wants its socket's folder open to all, and the key's closed.
  fs::permissions(folder_.path(), fs::perms(0711));
  std::random_device random;
  std::string key;
  for (int i = 0; i < 64; ++i) key += static_cast<char>(random());
  fs::permissions(folder_.write("munge/key", key), fs::perms(0400));
  fs::permissions(folder_ / "munge", fs::perms(0700));
  const std::string socket = folder_ / "munge.socket";
  start_daemon({find_program("munged"), "--foreground", "--socket=" + socket,
                "--key-file=" + (folder_ / "munge/key"), "--pid-file=" + (folder_ / "munge/pid"),
                "--log-file=" + (folder_ / "munge/log"),
                "--seed-file=" + (folder_ / "munge/seed")});
  if (!wait_seconds(10, [&] { return fs::exists(socket) || !daemons_.back()->running(); })) {
    throw std::runtime_error("munged makes no socket");
  }
  write_configuration();
  start_daemon({find_program("slurmctld"), "-D", "-c"});
  start_daemon({find_program("slurmd"), "-D", "-c"});
  const auto idle = [&] {
    return command({"sinfo", "--noheader", "--format=%T"}).out.rfind("idle", 0) == 0;
  };
  if (!wait_seconds(20, idle)) throw std::runtime_error("Slurm does not start here\n" + logs());
}

void OneNodeSlurm::write_configuration() const {
  for (const char* name : {"spool", "state"}) fs::create_directory(folder_ / name);
  const std::string host = host_name(), user = user_name();
  const auto line = [](const std::string& key, const std::string& value) {
    return key + "=" + value + "\n";
  };
  folder_.write(
      "slurm.conf",
      line("ClusterName", "attnlab-test") + line("SlurmctldHost", host + "(127.0.0.1)") +
          line("SlurmctldPort", std::to_string(free_port())) +
          line("SlurmdPort", std::to_string(free_port())) + line("SlurmUser", user) +
          line("SlurmdUser", user) + line("AuthType", "auth/munge") +
          // A requeued job may start again once the credential of its first start has expired.
          line("AuthInfo", "socket=" + (folder_ / "munge.socket") + ",cred_expire=5") +
          line("CredType", "cred/munge") + line("StateSaveLocation", folder_ / "state") +
          line("SlurmdSpoolDir", folder_ / "spool") +
          line("SlurmctldPidFile", folder_ / "slurmctld.pid") +
          line("SlurmdPidFile", folder_ / "slurmd.pid") +
          line("SlurmctldLogFile", folder_ / "slurmctld.log") +
          line("SlurmdLogFile", folder_ / "slurmd.log") +
          line("ProctrackType", "proctrack/linuxproc") + line("TaskPlugin", "task/none") +
          line("JobAcctGatherType", "jobacct_gather/none") +
          line("AccountingStorageType", "accounting_storage/none") +
          line("SelectType", "select/cons_tres") + line("SelectTypeParameters", "CR_CPU") +
          line("SchedulerType", "sched/builtin") +
          line("SchedulerParameters", "sched_interval=1,batch_sched_delay=0") +
          line("SlurmdParameters", "config_overrides") + line("ReturnToService", "2") +
          line("MpiDefault", "none") + line("SwitchType", "switch/none") + line("KillWait", "5") +
          "NodeName=" + host + " NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n" +
          "PartitionName=main Nodes=" + host + " Default=YES MaxTime=INFINITE State=UP\n");
}

void OneNodeSlurm::start_daemon(const std::vector<std::string>& words) {
  daemons_.push_back(
      std::make_unique<Process>(Invocation{.words = words, .environment = environment()}));
}

std::string OneNodeSlurm::logs() const {
  std::string text;
  for (const char* name : {"munge/log", "slurmctld.log", "slurmd.log"}) {
    const std::string log = file_text(folder_ / name);
    text += std::string("---- ") + name + "\n" +
            log.substr(log.size() - std::min<std::size_t>(log.size(), 2000));
  }
  return text;
}

}  // namespace attnlab::testing
