#include "energon_meta.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sqlite3.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace kinora::shard {
namespace {

// A name split at its last number: "shard-" "000041" ".tar".
struct Numbered {
  std::string before, digits, after;
};

Numbered split_number(const std::string& name) {
  const size_t end = name.find_last_of("0123456789");
  if (end == std::string::npos) return {name, "", ""};
  const size_t begin = name.find_last_not_of("0123456789", end) + 1;  // npos + 1 is 0
  return {name.substr(0, begin), name.substr(begin, end + 1 - begin), name.substr(end + 1)};
}

bool follows(const Numbered& a, const Numbered& b) {
  if (a.before != b.before || a.after != b.after || a.digits.size() != b.digits.size() || a.digits.empty())
    return false;
  return std::stoull(a.digits) + 1 == std::stoull(b.digits);
}

void list_part(std::string& out, const char* part, const std::vector<std::string>& names) {
  out += std::string("  ") + part + (names.empty() ? ": []\n" : ":\n");
  for (const auto& name : brace_list(names)) out += "  - " + name + "\n";
}

}  // namespace

std::string tar_index(const std::vector<StoredSample>& samples, uint64_t end) {
  std::string out;
  const auto put = [&](uint64_t v) {
    for (int i = 0; i < 8; ++i) out += static_cast<char>(v >> (8 * i));
  };
  for (const auto& s : samples) put(s.offset);
  put(end);
  return out;
}

std::vector<std::string> brace_list(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (size_t i = 0; i < names.size();) {
    const Numbered first = split_number(names[i]);
    Numbered last = first;
    size_t end = i + 1;
    for (; end < names.size(); ++end) {
      Numbered next = split_number(names[end]);
      if (!follows(last, next)) break;
      last = std::move(next);
    }
    out.push_back(end == i + 1 ? names[i]
                               : first.before + "{" + first.digits + ".." + last.digits + "}" + first.after);
    i = end;
  }
  return out;
}

std::string info_json(const std::vector<ShardInfo>& shards) {
  nlohmann::ordered_json out;
  out["energon_version"] = "7.4.1+kinora";  // the version that defined this layout
  out["shard_counts"] = nlohmann::ordered_json::object();
  for (const auto& shard : shards) out["shard_counts"][shard.name] = shard.samples;
  return out.dump(2) + "\n";
}

std::string split_yaml(const std::vector<ShardInfo>& shards, double val) {
  std::vector<std::string> train, held_out;
  for (size_t i = 0; i < shards.size(); ++i) {
    const double n = static_cast<double>(i);
    const bool is_val = std::floor((n + 1) * val + 1e-9) > std::floor(n * val + 1e-9);
    (is_val ? held_out : train).push_back(shards[i].name);
  }
  std::string out = "split_parts:\n";
  list_part(out, "train", train);
  if (val > 0) list_part(out, "val", held_out);
  return out + "exclude: []\n";
}

std::string dataset_yaml() { return "__module__: megatron.energon\n__class__: CrudeWebdataset\n"; }

std::string index_uuid(uint64_t high, uint64_t low) {
  high = (high & ~uint64_t{0xf000}) | 0x8000;                // version 8: custom content
  low = (low & ~(uint64_t{3} << 62)) | (uint64_t{2} << 62);  // the variant of RFC 9562
  char text[37];
  std::snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", static_cast<unsigned>(high >> 32),
                static_cast<unsigned>(high >> 16 & 0xffff), static_cast<unsigned>(high & 0xffff),
                static_cast<unsigned>(low >> 48), static_cast<unsigned long long>(low & 0xffffffffffff));
  return text;
}

void IndexHash::add(std::string_view text) {
  constexpr Wide kPrime = (Wide{1} << 88) | 0x13b;
  for (const unsigned char c : text) state_ = (state_ ^ c) * kPrime;
  state_ = (state_ ^ 0x100) * kPrime;  // separator: "ab","c" differs from "a","bc"
}

void IndexHash::add(uint64_t number) {
  add(std::string_view(reinterpret_cast<const char*>(&number), sizeof number));
}

void IndexHash::add(const ShardInfo& shard, const std::vector<StoredSample>& samples) {
  add(shard.name);
  for (const auto& s : samples) {
    add(s.key);
    add(s.offset);
    for (const auto& part : s.parts) {
      add(part.name);
      add(part.size);
    }
  }
}

namespace {

// The schema that Megatron-Energon 7 reads (megatron/energon/flavors/webdataset/indexing.py there).
constexpr const char* kTables =
    "CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, sample_index "
    "INTEGER NOT NULL,"
    " byte_offset INTEGER, byte_size INTEGER);"
    "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, "
    "content_byte_offset INTEGER,"
    " content_byte_size INTEGER);";
constexpr const char* kIndexes =
    "CREATE INDEX idx_samples_by_tar_and_idx ON samples(tar_file_id, sample_index);"
    "CREATE INDEX idx_sample_parts_seq ON sample_parts(tar_file_id, sample_index, content_byte_offset);"
    "CREATE INDEX idx_sample_parts_full ON sample_parts(tar_file_id, sample_index, part_name, "
    "content_byte_offset,"
    " content_byte_size);";

// Binds one row of values and steps the statement.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  ~Row() { sqlite3_reset(statement_); }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;
  Row& operator<<(uint64_t v) {
    sqlite3_bind_int64(statement_, ++n_, static_cast<sqlite3_int64>(v));
    return *this;
  }
  Row& operator<<(std::string_view v) {
    sqlite3_bind_text(statement_, ++n_, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT);
    return *this;
  }
  int step() { return sqlite3_step(statement_); }

 private:
  sqlite3_stmt* statement_;
  int n_ = 0;
};

}  // namespace

std::vector<StoredSample> group(const std::vector<Member>& members, uint64_t end) {
  std::vector<StoredSample> out;
  for (const Member& m : members) {
    const size_t slash = m.name.find_last_of('/');
    const size_t dot = m.name.find('.', slash == std::string::npos ? 0 : slash + 1);
    if (dot == std::string::npos) continue;
    const std::string key = m.name.substr(0, dot);
    if (out.empty() || out.back().key != key) {
      if (!out.empty()) out.back().size = m.header - out.back().offset;
      out.push_back({key, m.header, 0, {}});
    }
    out.back().parts.push_back({m.name.substr(dot + 1), m.content, m.size});
  }
  if (!out.empty()) out.back().size = end - out.back().offset;
  return out;
}

ShardIndex::ShardIndex() : folder_(std::filesystem::temp_directory_path().string()) {
  std::string path = folder_ + "/kinora-index-XXXXXX";
  descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor_ < 0)
    throw Error(KINORA_ERROR_IO, folder_ + ": cannot create the index here; set TMPDIR to a writable folder");
  const int status =
      sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  ::unlink(path.c_str());  // a killed process leaves no file behind
  check(status);
  execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;");  // an interrupted run builds it again
  execute(kTables);
  execute("BEGIN;");
  const auto prepare = [&](const char* sql, sqlite3_stmt** to) {
    check(sqlite3_prepare_v2(db_, sql, -1, to, nullptr));
  };
  prepare("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", &add_sample_);
  prepare("INSERT INTO sample_parts VALUES (?, ?, ?, ?, ?)", &add_part_);
  prepare("SELECT tar_file_id FROM samples WHERE sample_key = ?", &find_);
}

ShardIndex::~ShardIndex() {
  for (sqlite3_stmt* s : {add_sample_, add_part_, find_}) sqlite3_finalize(s);
  sqlite3_close(db_);
  ::close(descriptor_);
}

void ShardIndex::check(int status) const {
  if (status == SQLITE_OK || status == SQLITE_DONE || status == SQLITE_ROW) return;
  const std::string text = db_ ? sqlite3_errmsg(db_) : sqlite3_errstr(status);
  throw Error(
      status == SQLITE_FULL ? KINORA_ERROR_NO_MEMORY : KINORA_ERROR_IO,
      folder_ + ": cannot write the index (" + text + "); free space there, or set TMPDIR to another folder");
}

void ShardIndex::execute(const char* sql) { check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr)); }

void ShardIndex::add(int64_t shard, const std::vector<StoredSample>& samples) {
  const auto id = static_cast<uint64_t>(shard);
  for (uint64_t i = 0; i < samples.size(); ++i) {
    const StoredSample& s = samples[i];
    const int status = (Row(add_sample_) << id << s.key << i << s.offset << s.size).step();
    if (status == SQLITE_CONSTRAINT)
      throw Error(KINORA_ERROR_DATA, "two samples are called '" + s.key + "'; keys must be unique");
    check(status);
    for (const auto& part : s.parts)
      check((Row(add_part_) << id << i << part.name << part.offset << part.size).step());
  }
}

std::optional<int64_t> ShardIndex::find(std::string_view key) const {
  Row row(find_);
  const int status = (row << key).step();
  if (status == SQLITE_ROW) return sqlite3_column_int64(find_, 0);
  check(status);
  return std::nullopt;
}

void ShardIndex::publish(const std::string& uri) {
  execute(kIndexes);
  execute("COMMIT;");
  for (sqlite3_stmt** s : {&add_sample_, &add_part_, &find_}) sqlite3_finalize(std::exchange(*s, nullptr));
  check(sqlite3_close(db_));
  db_ = nullptr;
  Writer out(uri);
  std::vector<char> block(1 << 20);
  ssize_t got = 0;
  for (off_t at = 0; (got = ::pread(descriptor_, block.data(), block.size(), at)) > 0; at += got)
    out.write(block.data(), static_cast<uint64_t>(got));
  if (got < 0) throw Error(KINORA_ERROR_IO, folder_ + ": cannot read the index back; check the device");
  out.commit();
}

}  // namespace kinora::shard
