// Checks of storages: what was written is read back, and what is missing is said to be.
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "apps/validate/trial_call.hpp"
#include "kinora/abi/storage.h"

namespace kinora {
namespace storage_checks_of {
namespace {

// An instance, and calls that throw what it answers.
class Storage {
 public:
  explicit Storage(const PluginTrial& t)
      : t_(t), options_(t.options()), made_(t, options_), api(made_.api), self(made_.self) {
    if (t.subject.at.empty()) throw Skipped{"say where it may write: --at PATH, a folder of this storage"};
  }

  std::string path(const char* name) const {
    return t_.subject.at + "/kinora-validate-" + std::to_string(t_.subject.seed) + "-" + name;
  }
  void write(const std::string& at, const std::string& bytes) const {
    void* writer = nullptr;
    require_ok([&] { return api.begin(self, str(at), &writer); }, "begin(" + at + ")");
    t_.now("append(" + at + ")");
    for (size_t i = 0; i < bytes.size(); i += 70000)
      if (const int32_t s =
              api.append(self, writer, bytes.data() + i, std::min<size_t>(70000, bytes.size() - i));
          s != KINORA_OK) {
        api.abort(self, writer);
        require_ok(s, "append(" + at + ")");
      }
    require_ok([&] { return api.commit(self, writer); }, "commit(" + at + ")");
  }
  void remove(const std::string& at) const {
    require_ok([&] { return api.remove(self, str(at)); }, "remove(" + at + ")");
  }

 private:
  const PluginTrial& t_;
  core::Options options_;
  TrialInstance<kinora_storage> made_;

 public:
  const kinora_storage& api;
  void* const self;
};

std::string random_bytes(uint64_t seed, size_t n) {
  std::mt19937_64 draw(seed);
  std::string out(n, 0);
  for (auto& c : out) c = static_cast<char>(draw());
  return out;
}

// An open object, and its reads compared with what it must hold.
class Reader {
 public:
  Reader(const Storage& s, const std::string& path, const std::string& expected)
      : s_(s), expected_(expected) {
    uint64_t size = 0;
    require_ok([&] { return s.api.open(s.self, str(path), &reader_, &size); }, "open(" + path + ")");
    if (size != expected.size()) {
      s.api.close(s.self, reader_);
      throw Error(KINORA_ERROR_DATA,
                  fmt::format("open({}) says {} bytes; {} were written", path, size, expected.size()));
    }
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    watch().now("close()");
    s_.api.close(s_.self, reader_);
  }

  // "" or what is wrong.
  std::string compare(uint64_t offset, uint64_t size) const {
    std::string to(size + 8, 'm');
    uint64_t got = ~uint64_t{0};
    watch().now(fmt::format("read({}, {})", offset, size));
    if (s_.api.read(s_.self, reader_, offset, to.data(), size, &got) != KINORA_OK)
      return fmt::format("read({}, {}) failed: {}", offset, size, last_message());
    const std::string want = offset < expected_.size() ? expected_.substr(offset, size) : "";
    if (got != want.size())
      return fmt::format("read({}, {}) gave {} bytes, expected {}", offset, size, got, want.size());
    if (to.compare(0, want.size(), want) != 0)
      return fmt::format("read({}, {}) gave other bytes than were written", offset, size);
    return to.compare(size, 8, "mmmmmmmm") == 0
               ? ""
               : fmt::format("read({}, {}) wrote behind the buffer", offset, size);
  }

 private:
  const Storage& s_;
  const std::string expected_;
  void* reader_ = nullptr;
};

void require_none(const std::string& wrong) {
  if (!wrong.empty()) throw Error(KINORA_ERROR_DATA, wrong);
}

std::string check_read_back(PluginTrial& t) {
  const Storage s(t);
  const std::string at = s.path("object"), bytes = random_bytes(t.subject.seed, 200003);
  s.write(at, "first");
  s.write(at, bytes);  // replaces
  {
    const Reader r(s, at, bytes);
    for (const auto& [offset, size] : {std::pair<uint64_t, uint64_t>{0, 200003},
                                       {0, 0},
                                       {1, 1},
                                       {65535, 65537},
                                       {199999, 100},
                                       {200003, 10},
                                       {1 << 30, 10}})
      require_none(r.compare(offset, size));
  }
  s.write(at, "");
  require_none(Reader(s, at, "").compare(0, 10));
  s.remove(at);
  return "";
}

std::string check_ranges_at_once(PluginTrial& t) {
  const Storage s(t);
  const std::string at = s.path("threads"), bytes = random_bytes(t.subject.seed + 1, 200003);
  s.write(at, bytes);
  std::string wrong[4];
  {
    const Reader r(s, at, bytes);
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        for (uint64_t k = 0; k < 200 && wrong[i].empty(); ++k)
          wrong[i] = r.compare((k * 977 + i * 50000) % 190000, 1000);
      });
    for (auto& one : threads) one.join();
  }
  s.remove(at);
  for (const auto& one : wrong) require_none(one.empty() ? "" : "one reader on four threads: " + one);
  return "";
}

// A call on a missing object must say that, with a message.
template <class Call>
void require_missing(const std::string& what, Call call) {
  watch().now(what);
  watching_host().set_error(&watching_host(), KINORA_OK, "");
  if (const int32_t status = call(); status != KINORA_ERROR_NOT_FOUND)
    throw Error(KINORA_ERROR_FAILED, fmt::format("{} returned {}; return KINORA_ERROR_NOT_FOUND ({})", what,
                                                 status, KINORA_ERROR_NOT_FOUND));
  if (last_message().empty())
    throw Error(KINORA_ERROR_FAILED,
                what + " returned KINORA_ERROR_NOT_FOUND without a message; call host->set_error() first");
}

std::string check_missing(PluginTrial& t) {
  const Storage s(t);
  const std::string at = s.path("missing");
  void *reader = nullptr, *writer = nullptr;
  uint64_t size = 0;
  const auto open = [&] { return s.api.open(s.self, str(at), &reader, &size); };
  require_missing("open() of a missing object", open);
  require_missing("remove() of a missing object", [&] { return s.api.remove(s.self, str(at)); });
  require_ok([&] { return s.api.begin(s.self, str(at), &writer); }, "begin(" + at + ")");
  require_ok([&] { return s.api.append(s.self, writer, "part", 4); }, "append(" + at + ")");
  require_missing("open() of an object that is not committed", open);
  t.now("abort()");
  s.api.abort(s.self, writer);
  require_missing("open() after abort()", open);
  return "";
}

// Texts that a call gives.
struct Given {
  std::string text;
  kinora_sink sink() {
    return {this, [](void* self, const void* data, uint64_t size) {
              static_cast<Given*>(self)->text.append(static_cast<const char*>(data), size);
            }};
  }
};

std::string check_conditions(PluginTrial& t) {
  const Storage s(t);
  const bool has_all = KINORA_HAS(&s.api, remove_if) && s.api.put_if && s.api.read_small && s.api.remove_if;
  if (!has_all) throw Skipped{"it does not offer put_if(), read_small() and remove_if()"};
  const std::string at = s.path("conditions");
  const auto put = [&](const std::string& bytes, const std::string& tag, Given& made) {
    const kinora_sink to = made.sink();
    return s.api.put_if(s.self, str(at), {bytes.data(), bytes.size()}, str(tag), &to);
  };
  const auto expect = [&](const std::string& what, int32_t expected, const auto& call) {
    t.now(what);
    if (const int32_t status = call(); status != expected)
      throw Error(KINORA_ERROR_FAILED, fmt::format("{} returned {}, expected {}", what, status, expected));
  };
  Given first, second, none, bytes, tag;
  expect("put_if() of a new object", KINORA_OK, [&] { return put("one", "", first); });
  expect("put_if() of an object that exists", KINORA_SIGNAL_CONFLICT, [&] { return put("two", "", none); });
  expect("put_if() with its tag", KINORA_OK, [&] { return put("three", first.text, second); });
  expect("put_if() with an old tag", KINORA_SIGNAL_CONFLICT, [&] { return put("four", first.text, none); });
  const kinora_sink to_bytes = bytes.sink(), to_tag = tag.sink();
  expect("read_small()", KINORA_OK, [&] { return s.api.read_small(s.self, str(at), &to_bytes, &to_tag); });
  if (bytes.text != "three" || tag.text != second.text || first.text == second.text)
    throw Error(KINORA_ERROR_DATA,
                fmt::format("read_small() gave '{}' with tag '{}', expected 'three' with '{}'", bytes.text,
                            tag.text, second.text));
  const auto remove = [&](const Given& of) { return s.api.remove_if(s.self, str(at), str(of.text)); };
  expect("remove_if() with an old tag", KINORA_SIGNAL_CONFLICT, [&] { return remove(first); });
  expect("remove_if() with its tag", KINORA_OK, [&] { return remove(second); });
  expect("put_if() with the tag of a removed object", KINORA_SIGNAL_CONFLICT,
         [&] { return put("five", second.text, none); });
  return "";
}

constexpr Check kChecks[] = {
    {"read-back", "storage", "what was written is read back, whole and in ranges, at and past the end", false,
     nullptr, check_read_back},
    {"missing", "storage", "a missing, uncommitted or aborted object is KINORA_ERROR_NOT_FOUND", false,
     nullptr, check_missing},
    {"reads-at-once", "storage", "one reader gives the same bytes to four threads", false, nullptr,
     check_ranges_at_once},
    {"conditions", "storage", "a write or removal with another tag than the object's is refused", false,
     nullptr, check_conditions}};

}  // namespace
}  // namespace storage_checks_of

std::span<const Check> storage_checks() { return storage_checks_of::kChecks; }

}  // namespace kinora
