// Runs commands from stdin on the storage, for tests and benchmarks against a server
// (tests/faults/s3_storage.py):
//
//   s3_trial '{"endpoint": "...", ...}'       options; credentials as usual
//   put PATH SIZE SEED                        writes bytes that follow from the seed, in pieces of 1 MiB minus 7
//   drop PATH SIZE SEED                       the same without commit
//   get PATH SIZE SEED HOW [CHUNK]            reads and compares; HOW: forward, random, threads, whole
//   time PATH CHUNK                           reads from begin to end; prints seconds
//   list PATH | remove PATH
//   put_if PATH TEXT [TAG] | read_small PATH | remove_if PATH TAG     prints tags; "conflict"
//   list_from PATH MOST [AFTER] | count PATH                          prints names; their number, by pages
//
// Each line is answered by one: "ok ..." or "error STATUS MESSAGE", then " | requests repeated".
#include <chrono>
#include <cstring>
#include <iostream>
#include <random>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "plugins/storage/s3/s3_storage.hpp"

namespace kinora::s3 {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014) of the position, so that any part can be generated alone.
uint64_t word(uint64_t seed, uint64_t i) {
  uint64_t z = seed * 0x9E3779B97F4A7C15u + (i + 1) * 0xD1B54A32D192ED03u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::string bytes_at(uint64_t seed, uint64_t offset, uint64_t size) {
  std::string out((size + 16) / 8 * 8 + 8, '\0');
  for (uint64_t i = 0; i < out.size() / 8; ++i) {
    const uint64_t w = word(seed, offset / 8 + i);
    std::memcpy(out.data() + i * 8, &w, 8);
  }
  return out.substr(offset % 8, size);
}

using Words = std::istringstream;
template <class T>
T next(Words& from) {
  T out{};
  if (!(from >> out)) throw Error(KINORA_ERROR_INVALID, "a word is missing");
  return out;
}

void fill(StorageWriter& to, uint64_t size, uint64_t seed) {
  constexpr uint64_t kPiece = (1 << 20) - 7;
  for (uint64_t at = 0; at < size; at += kPiece) {
    const auto bytes = bytes_at(seed, at, std::min(kPiece, size - at));
    to.append(bytes.data(), bytes.size());
  }
}

void expect(StorageReader& from, uint64_t offset, uint64_t size, uint64_t seed) {
  std::string got(size, 'x');
  const uint64_t n = from.read(offset, got.data(), size);
  const uint64_t there = offset < from.size() ? std::min(size, from.size() - offset) : 0;
  if (n != there || got.substr(0, n) != bytes_at(seed, offset, n))
    throw Error(KINORA_ERROR_DATA, "wrong bytes at " + std::to_string(offset) + " + " + std::to_string(size));
}

void get(Storage& s, Words& words) {
  const auto path = next<std::string>(words);
  const auto size = next<uint64_t>(words), seed = next<uint64_t>(words);
  const auto how = next<std::string>(words);
  uint64_t chunk = 100'000;
  words >> chunk;
  const auto r = s.open(path);
  if (r->size() != size) throw Error(KINORA_ERROR_DATA, "size " + std::to_string(r->size()));
  const auto forward = [&](uint64_t from) {
    for (uint64_t at = from; at < size; at += chunk) expect(*r, at, chunk, seed);
  };
  const auto random = [&](uint64_t which) {
    std::mt19937_64 draw(which);
    for (int i = 0; i < 40; ++i) expect(*r, draw() % (size + 10), 1 + draw() % chunk, seed);
  };
  if (how == "forward") forward(0);
  if (how == "random") random(1);
  if (how == "whole") expect(*r, 0, size, seed);
  if (how != "threads") return;
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (uint64_t t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      try {
        t % 2 ? random(t) : forward(t * size / 8);
      } catch (const std::exception& e) {
        std::cerr << e.what() << "\n";
        ++failed;
      }
    });
  for (auto& t : threads) t.join();
  if (failed) throw Error(KINORA_ERROR_DATA, "a thread failed");
}

std::string time(Storage& s, Words& words) {
  const auto path = next<std::string>(words);
  std::vector<char> chunk(next<uint64_t>(words));
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto r = s.open(path);
  uint64_t at = 0;
  while (const uint64_t n = r->read(at, chunk.data(), chunk.size())) at += n;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return std::to_string(at) + " " + std::to_string(seconds);
}

nlohmann::json names_from(Storage& s, const std::string& path, uint64_t most, const std::string& after) {
  auto out = nlohmann::json::array();
  s.list_from(path, after, most, [&](const kinora_entry& e) {
    out.push_back(std::string(view(e.name)));
    return KINORA_OK;
  });
  return out;
}

// Of the functions with conditions and the flat listing; nothing: it is none of them.
std::optional<std::string> perform_shared(Storage& s, const std::string& what, Words words) {
  std::string path, text, tag;
  words >> path >> text >> tag;
  if (what == "put_if") return s.put_if(path, text, tag).value_or("conflict");
  if (what == "remove_if") return s.remove_if(path, text) ? "" : "conflict";
  if (what == "list_from") return names_from(s, path, std::stoull(text), tag).dump();
  if (what == "read_small") {
    const SmallObject found = s.read_small(path);
    return found.tag + " " + found.bytes;
  }
  if (what != "count") return std::nullopt;
  size_t count = 0;
  for (auto page = names_from(s, path, 5000, ""); !page.empty();
       page = names_from(s, path, 5000, page.back().get<std::string>()))
    count += page.size();
  return std::to_string(count);
}

std::string perform(Storage& s, const std::string& line) {
  Words words(line);
  const auto what = next<std::string>(words);
  if (auto said = perform_shared(s, what, Words(line.substr(what.size())))) return *said;
  if (what == "get") return get(s, words), "";
  if (what == "time") return time(s, words);
  if (what == "put" || what == "drop") {
    const auto path = next<std::string>(words);
    const auto size = next<uint64_t>(words);
    auto w = s.begin(path);
    fill(*w, size, next<uint64_t>(words));
    if (what == "put") w->commit();
    return "";
  }
  const std::string path = line.substr(std::min(line.size(), what.size() + 1));
  if (what == "remove") return s.remove(path), "";
  auto listed = nlohmann::json::array();
  s.list(path, [&](const kinora_entry& e) {
    listed.push_back({std::string(view(e.name)), e.folder, e.size, e.modified});
    return KINORA_OK;
  });
  return listed.dump();
}

Options options_of(const nlohmann::json& given) {
  Options o;
  o.endpoint = given.value("endpoint", o.endpoint);
  o.region = given.value("region", o.region);
  o.profile = given.value("profile", o.profile);
  o.anonymous = given.value("anonymous", o.anonymous);
  o.ca_file = given.value("ca_file", o.ca_file);
  o.connect_timeout = given.value("connect_timeout", o.connect_timeout);
  o.timeout = given.value("timeout", o.timeout);
  o.retries = given.value("retries", o.retries);
  o.part_size = given.value("part_size", o.part_size);
  o.parallel = given.value("parallel", o.parallel);
  o.read_ahead = given.value("read_ahead", o.read_ahead);
  return o;
}

}  // namespace
}  // namespace kinora::s3

int main(int count, char** arguments) {
  using namespace kinora;
  s3::S3Storage storage(s3::options_of(nlohmann::json::parse(count > 1 ? arguments[1] : "{}")));
  for (std::string line; std::getline(std::cin, line);) {
    const int64_t requests = storage.client().requests(), repeated = storage.client().repeated();
    try {
      const std::string said = s3::perform(storage, line);
      std::cout << "ok " << said;
    } catch (const Error& e) {
      std::cout << "error " << e.code() << " " << e.what();
    }
    std::cout << " | " << storage.client().requests() - requests << " "
              << storage.client().repeated() - repeated << std::endl;
  }
}
