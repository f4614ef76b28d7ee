#include "plugins/collectives/c10d/rendezvous.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>

#include <c10/util/Logging.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "kinora/abi/collective.h"
#include "kinora/error.hpp"
#include "kinora/run.hpp"
#include "plugins/collectives/c10d/listener.hpp"
#include "plugins/collectives/c10d/secret.hpp"

namespace kinora {
namespace {

// One rank's wait for others while a world begins: it ends when its time is over or the run is asked to
// stop, and logs after a moment what it waits for.
class Patience {
 public:
  Patience(std::string collective, const kinora_world& world)
      : who_(std::move(collective)), limit_(world.timeout_ms), run_(world.run) {}

  // Sleeps briefly and returns whether time is left. Throws Error(KINORA_ERROR_CANCELLED). what(): "rank 3 at
  // host:1".
  template <class What>
  bool more(What what) {
    if (run_) Run(run_).check_cancelled();
    const auto waited = Clock::now() - begin_;
    if (waited >= limit_) return false;
    if (!said_ && waited >= kMoment) {
      log(Log::info, who_ + ": waiting for " + what() + ", at most " +
                         std::to_string(std::chrono::ceil<std::chrono::seconds>(limit_).count()) + " s");
      said_ = true;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(nap_, limit_ - waited));
    nap_ = std::min(2 * nap_, waited < kMoment ? kShortNap : kLongestNap);
    return true;
  }
  std::chrono::milliseconds limit() const { return limit_; }

 private:
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;
  static constexpr milliseconds kMoment{2000}, kShortNap{20}, kLongestNap{200};
  std::string who_;
  milliseconds limit_, nap_{5};
  const kinora_run* run_;
  Clock::time_point begin_ = Clock::now();
  bool said_ = false;
};

// Limit of one attempt: a lost packet is sent again by the next one.
constexpr int kAttemptMs = 1000;

bool takes_connections(const addrinfo& at) {
  const int fd = socket(at.ai_family, at.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at.ai_protocol);
  if (fd < 0) return false;
  bool done = connect(fd, at.ai_addr, at.ai_addrlen) == 0;
  if (!done && errno == EINPROGRESS) {
    pollfd wait{fd, POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    done = poll(&wait, 1, kAttemptMs) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
           error == 0;
  }
  close(fd);
  return done;
}

// Empty if a process listens there; else the reason. A host name may become known while ranks start.
std::string refusal(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    return "the host name '" + host + "' is not known (" + gai_strerror(error) + ")";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  for (const addrinfo* at = found; at; at = at->ai_next)
    if (takes_connections(*at)) return "";
  return "no process listens at " + host + ":" + std::to_string(port);
}

// Checks whether a process listens at an address before c10d's store connects: the store would wait without
// reacting to Ctrl-C, and fail with pages of text. Returns once host:port accepts connections. Throws
// Error(KINORA_ERROR_TIMEOUT) with the reason; expected: the process that must listen, "rank 0".
void wait_for_listener(const std::string& who, const std::string& host, uint16_t port,
                       const std::string& expected, Patience& patience) {
  std::string why;
  while (!(why = refusal(host, port)).empty())
    if (!patience.more([&] { return expected + ", for " + why; }))
      throw Error(KINORA_ERROR_TIMEOUT, who + ": " + why + " after " +
                                            std::to_string(patience.limit().count()) + " ms; " + expected +
                                            " must be started there");
}

// c10d logs every failed socket with its stack; the errors here already say the result. Libtorch's log is
// shown if the user asks libtorch for it.
void quiet_c10d() {
  if (!std::getenv("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
}

c10::intrusive_ptr<c10d::Store> open_file(const std::string& who, const Rendezvous& at,
                                          const kinora_world& w) {
  const auto folder = std::filesystem::path(at.file).parent_path();
  if (!std::filesystem::is_directory(folder))
    throw Error(KINORA_ERROR_NOT_FOUND,
                who + ": the rendezvous folder " + folder.string() + " does not exist");
  return c10::make_intrusive<c10d::FileStore>(at.file, static_cast<int>(w.size));
}

c10::intrusive_ptr<c10d::Store> open_tcp(const std::string& who, const Rendezvous& at, const kinora_world& w,
                                         Patience& patience) {
  c10d::TCPStoreOptions options;
  options.port = at.port;
  const bool serves = w.rank == 0 && at.part.empty();
  options.isServer = serves;
  options.numWorkers = static_cast<size_t>(w.size);
  options.waitWorkers = false;  // meet() waits, and reports for whom
  options.timeout = std::chrono::milliseconds(w.timeout_ms);
  const std::string expected = at.part.empty() ? "rank 0" : "the launcher's store";
  if (!serves) wait_for_listener(who, at.host, at.port, expected, patience);
  const std::string secret = shared_secret();
  try {
    // If it listens on every interface and the given address belongs to another host, the other ranks report it.
    if (serves) options.masterListenFd = bound_socket(at.host, at.port);
    const bool is_everywhere = serves && !options.masterListenFd;
    c10::intrusive_ptr<c10d::Store> store =
        c10::make_intrusive<c10d::TCPStore>(is_everywhere ? "127.0.0.1" : at.host, options);
    if (!at.part.empty()) store = c10::make_intrusive<c10d::PrefixStore>(at.part, std::move(store));
    if (!secret.empty()) store = c10::make_intrusive<c10d::PrefixStore>("secret/" + secret, std::move(store));
    return store;
  } catch (const std::exception& e) {
    const std::string text = e.what(), where = at.host + ":" + std::to_string(at.port);
    if (serves)
      throw Error(KINORA_ERROR_IO, who + ": rank 0 cannot listen at " + where + " (" +
                                       text.substr(0, text.find('\n')) + "); choose another port");
    throw Error(KINORA_ERROR_TIMEOUT, who + ": what listens at " + where + " is not " + expected + " (" +
                                          text.substr(0, text.find('\n')) + "); choose another port");
  }
}

std::string joined_key(int64_t rank) { return "joined/" + std::to_string(rank); }

// Two launches at one address would mix up their ranks.
void join(const std::string& who, const std::string& where, c10d::Store& store, const kinora_world& world) {
  const std::string mine = std::to_string(world.size);
  const auto told = store.compareSet("size", {}, std::vector<uint8_t>(mine.begin(), mine.end()));
  const std::string theirs(told.begin(), told.end());
  if (theirs != mine)
    throw Error(KINORA_ERROR_INVALID, who + ": rank " + std::to_string(world.rank) + " is one of " + mine +
                                          " ranks, and another at " + where + " one of " + theirs +
                                          "; start all with the same WORLD_SIZE");
  if (store.add("came/" + std::to_string(world.rank), 1) > 1)
    throw Error(KINORA_ERROR_INVALID,
                who + ": rank " + std::to_string(world.rank) + " is already at " + where +
                    ": another launch meets there or has left it behind, or two processes have "
                    "this rank; give each launch a MASTER_PORT, or a file, of its own");
  store.set(joined_key(world.rank), std::vector<uint8_t>{1});
}

// "ranks 1, 3"
std::string named(const std::string& ranks) {
  return (ranks.find(',') == ranks.npos ? "rank " : "ranks ") + ranks;
}

// "1, 3"
std::string missing(c10d::Store& store, int64_t size) {
  std::string out;
  for (int64_t r = 0; r < size; ++r)
    if (!store.check({joined_key(r)})) out += (out.empty() ? "" : ", ") + std::to_string(r);
  return out;
}

// Rank 0 waits for every rank and notifies the others, so that a large world puts little load on the store.
bool is_complete(c10d::Store& store, const kinora_world& world) {
  const std::string complete = "joined";
  if (world.rank != 0) return store.check({complete});
  std::vector<std::string> all;
  for (int64_t r = 0; r < world.size; ++r) all.push_back(joined_key(r));
  if (!store.check(all)) return false;
  store.set(complete, std::vector<uint8_t>{1});
  return true;
}

// A separate part of the store for each meeting of this process at one address, as every job of a run
// has: otherwise it would find the keys of an earlier meeting, of ranks that no longer exist. The
// store itself stays until the process ends, since a rank may join while another one still leaves.
template <class Open>
c10::intrusive_ptr<c10d::Store> next_part(const std::string& place, Open open) {
  struct Kept {
    c10::intrusive_ptr<c10d::Store> store;
    int64_t meetings = 0;
  };
  static std::map<std::string, Kept> all;
  Kept& kept = all[place];
  if (!kept.store) kept.store = open();
  return c10::make_intrusive<c10d::PrefixStore>("meeting/" + std::to_string(kept.meetings++), kept.store);
}

}  // namespace

Rendezvous parse_rendezvous(const std::string& who, const std::string& uri) {
  Rendezvous out;
  if (uri.rfind("file:///", 0) == 0 && uri.size() > 8) {
    out.file = uri.substr(7);
    return out;
  }
  const bool stored = uri.rfind("store://", 0) == 0;
  if (stored || uri.rfind("tcp://", 0) == 0) {
    const size_t begin = stored ? 8 : 6,
                 slash = std::min(stored ? uri.find('/', begin) : uri.size(), uri.size());
    const size_t colon = uri.rfind(':', slash);
    const char* stop = uri.data() + slash;
    if (stored && slash + 1 < uri.size()) out.part = uri.substr(slash + 1);
    if (colon > begin && colon < slash && stored != out.part.empty()) {
      out.host = uri.substr(begin, colon - begin);
      const auto [end, error] = std::from_chars(uri.data() + colon + 1, stop, out.port);
      if (error == std::errc() && end == stop && out.port != 0) return out;
    }
  }
  throw Error(KINORA_ERROR_INVALID, who + ": the rendezvous '" + uri +
                                        "' must be file:///shared/folder/name, tcp://host:port or "
                                        "store://host:port/part");
}

c10::intrusive_ptr<c10d::Store> meet(const std::string& who, const Rendezvous& at,
                                     const kinora_world& world) {
  quiet_c10d();
  Patience patience(who, world);
  const std::string where = at.tcp() ? at.host + ":" + std::to_string(at.port) : at.file;
  const auto store = next_part(who + " " + where + "/" + at.part, [&] {
    return at.tcp() ? open_tcp(who, at, world, patience) : open_file(who, at, world);
  });
  store->setTimeout(patience.limit());
  std::string absent;
  try {
    join(who, where, *store, world);
    while (!is_complete(*store, world)) {
      if (patience.more([&] { return named(missing(*store, world.size)) + " at " + where; })) continue;
      absent = missing(*store, world.size);
      break;
    }
    if (absent.empty()) return store;
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    absent = "(the store at rank 0 is gone)";
  }
  throw Error(KINORA_ERROR_TIMEOUT,
              who + ": of " + std::to_string(world.size) + " ranks these did not join at " + where +
                  " within " + std::to_string(world.timeout_ms) + " ms: " + absent +
                  "; start them with the same MASTER_ADDR, MASTER_PORT and KINORA_SECRET, or give them "
                  "longer by KINORA_TIMEOUT_MS");
}

}  // namespace kinora
