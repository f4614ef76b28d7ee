#include "kinora/plugin.hpp"

#include "plugins/storage/s3/s3_storage.hpp"

using kinora::s3::S3Storage;
KINORA_COMPONENT(S3Storage)
KINORA_PLUGIN(S3Storage)
