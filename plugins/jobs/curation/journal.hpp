// A file of JSON lines that are only ever added at its end, each with a checksum:
//
//   {"sum":"0123456789abcdef","entry":{...}}      sum: the first 8 bytes of the SHA-256 of the entry's text
//
// What append() has returned for survives a kill at any moment; a line that was being written then is cut off
// when the file is opened again, and so is all from a line on whose sum is wrong.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

using nlohmann::json;

// [owner-thread], as a whole.
class Journal {
 public:
  // Where an entry's text is.
  struct Place {
    uint64_t offset = 0, size = 0;
  };

  // Opens the file, or makes it, and gives its entries in order. looks: it is only read, and need not be there. Throws
  // kinora::Error.
  Journal(std::filesystem::path file, const std::function<void(const json& entry, Place)>& each, bool looks = false);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // durable: it survives a power cut too. A write that fails (a full disk) leaves the file as it was, and
  // throws kinora::Error.
  Place append(const json& entry, bool durable);
  // Throws Error(KINORA_DATA) where somebody else has changed the file meanwhile.
  json read(Place) const;
  void clear();
  // Replaces all entries by those that `fill` writes, at once: a kill leaves the old file or the new one.
  // `fill` may still read(); afterwards places from before are void.
  using Write = std::function<void(const json&)>;
  void rewrite(const std::function<void(const Write&)>& fill);

 private:
  void open(int flags);
  void replay(const std::function<void(const json&, Place)>& each, bool looks);
  [[noreturn]] void fail(const char* doing, int error) const;
  [[noreturn]] void fail_at(Place place) const;
  std::filesystem::path file_;
  int descriptor_ = -1;
  uint64_t end_ = 0;
};

}  // namespace kinora::core
