#include "plugins/collectives/c10d/rendezvous.hpp"

#include <charconv>
#include <chrono>
#include <filesystem>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "kinora/error.hpp"

namespace kinora {

namespace {

c10::intrusive_ptr<c10d::Store> open_file(const std::string& who, const Rendezvous& at,
                                          const kinora_world& w) {
  const auto folder = std::filesystem::path(at.file).parent_path();
  if (!std::filesystem::is_directory(folder))
    throw Error(KINORA_NOT_FOUND, who + ": the rendezvous folder " + folder.string() + " does not exist");
  return c10::make_intrusive<c10d::FileStore>(at.file, static_cast<int>(w.size));
}

c10::intrusive_ptr<c10d::Store> open_tcp(const std::string& who, const Rendezvous& at,
                                         const kinora_world& w) {
  c10d::TCPStoreOptions options;
  options.port = at.port;
  const bool serves = w.rank == 0 && at.part.empty();
  options.isServer = serves;
  options.numWorkers = static_cast<size_t>(w.size);
  options.waitWorkers = false;  // meet() waits, and says for whom
  options.timeout = std::chrono::milliseconds(w.timeout_ms);
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(at.host, options);
    if (at.part.empty()) return store;
    return c10::make_intrusive<c10d::PrefixStore>(at.part, std::move(store));
  } catch (const std::exception& e) {
    const std::string text = e.what(), where = at.host + ":" + std::to_string(at.port);
    if (serves)
      throw Error(KINORA_IO, who + ": rank 0 cannot listen at " + where + " (" +
                                 text.substr(0, text.find('\n')) + "); choose another port");
    throw Error(KINORA_TIMEOUT,
                who + ": nobody listens at " + where + " after " + std::to_string(w.timeout_ms) + " ms; " +
                    (at.part.empty() ? "rank 0" : "the launcher's store") + " must be started there");
  }
}

std::string key(int64_t rank) { return "joined/" + std::to_string(rank); }

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
  throw Error(KINORA_INVALID, who + ": the rendezvous '" + uri +
                                  "' must be file:///shared/folder/name, tcp://host:port or "
                                  "store://host:port/part");
}

c10::intrusive_ptr<c10d::Store> meet(const std::string& who, const Rendezvous& at,
                                     const kinora_world& world) {
  auto store = at.tcp() ? open_tcp(who, at, world) : open_file(who, at, world);
  const std::chrono::milliseconds limit(world.timeout_ms);
  store->setTimeout(limit);
  std::vector<std::string> all;
  for (int64_t r = 0; r < world.size; ++r) all.push_back(key(r));
  try {
    store->set(key(world.rank), std::vector<uint8_t>{1});
    store->wait(all, limit);
  } catch (const std::exception&) {
    std::string missing;
    try {
      for (int64_t r = 0; r < world.size; ++r)
        if (!store->check({key(r)})) missing += (missing.empty() ? "" : ", ") + std::to_string(r);
    } catch (const std::exception&) {
      missing = "(the store at rank 0 is gone)";
    }
    throw Error(KINORA_TIMEOUT, who + ": of " + std::to_string(world.size) +
                                    " ranks these did not join within " + std::to_string(world.timeout_ms) +
                                    " ms: " + missing);
  }
  return store;
}

}  // namespace kinora
