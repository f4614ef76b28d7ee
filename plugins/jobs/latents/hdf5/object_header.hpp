// The header of an HDF5 object, a group or a dataset: messages of one kind each.
#pragma once
#include <list>
#include <string>
#include <vector>

#include "host/weights/safetensors.hpp"
#include "plugins/jobs/latents/hdf5/blocks.hpp"

namespace kinora::core::hdf5 {

enum class Kind : uint8_t {
  dataspace = 0x01,
  link_info = 0x02,
  datatype = 0x03,
  link = 0x06,
  external_files = 0x07,
  layout = 0x08,
  filters = 0x0b,
  attribute = 0x0c,
  continuation = 0x10,
  symbol_table = 0x11,
  attribute_info = 0x15
};

struct Message {
  Kind kind;
  Bytes bytes;
  bool shared;  // the bytes name another object, which has the message
};

// Version 1 of HDF5 1.0 to 1.6 and h5py's default, and version 2 since 1.8. The messages borrow from `blocks`.
struct ObjectHeader {
  std::list<std::vector<uint8_t>> blocks;
  std::vector<Message> messages;
  const Message* find(Kind) const;           // the first one; null: none
  Bytes need(Kind, const char* what) const;  // damage if there is none
};
ObjectHeader read_object_header(Walk&, uint64_t address);

// The shape of a dataspace message; [] of a single element.
std::vector<int64_t> shape_of(Bytes dataspace);
// The dtype of a datatype message that h5py or Kinora writes for it; bfloat16 is a float of 8 and 7 bits.
SafeDtype dtype_of(Bytes datatype);

// The text of the attribute `name` of a fixed length, without NULs at its end. false: there is none.
bool read_text_attribute(const ObjectHeader&, const std::string& name, std::string& text);

}  // namespace kinora::core::hdf5
