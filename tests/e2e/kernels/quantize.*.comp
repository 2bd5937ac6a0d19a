#version 460
// Rows of f32 to int8 rows: QCC_k codes, a scale for each 32 of them, a sum of codes for each 16, and for each 32
// the scale times their sum. One thread a block of 32.
#extension GL_EXT_buffer_reference : require

layout(local_size_x = QCC_WORKGROUP_SIZE) in;

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Floats { vec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Words { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Step { uint n_rows; };

layout(push_constant) uniform Arguments {
  Floats x;
  Words q;
  Step step;
};

const uint kScales = QCC_k / 4, kSums = kScales + QCC_k / 32, kWeighted = kSums + QCC_k / 16;  // in words
const uint kRow = (4 * (kWeighted + QCC_k / 32) + 63) / 64 * 16;

void main() {
  const uint row = gl_WorkGroupID.x;
  // A workgroup of ours has four columns a thread, so its first threads do for its blocks.
  const uint blocks_per_group = QCC_WORKGROUP_SIZE / 8;
  const uint block = gl_WorkGroupID.y * blocks_per_group + gl_LocalInvocationID.x;
  if (row >= step.n_rows || gl_LocalInvocationID.x >= blocks_per_group || block >= QCC_k / 32) return;

  vec4 values[8];
  float peak = 0;
  for (uint i = 0; i < 8; ++i) {
    values[i] = x.v[row * (QCC_k / 4) + block * 8 + i];
    const vec4 a = abs(values[i]);
    peak = max(peak, max(max(a.x, a.y), max(a.z, a.w)));
  }
  precise const float scale = peak / 127.0;
  const float divisor = scale == 0 ? 1 : scale;
  const float limit = scale == 0 ? 0 : 127;
  int sum = 0, before = 0;
  for (uint i = 0; i < 8; ++i) {
    precise const vec4 quotient = values[i] / divisor;
    const ivec4 code = ivec4(roundEven(clamp(quotient, vec4(-limit), vec4(limit))));
    const uvec4 byte = uvec4(code) & 0xffu;
    q.v[row * kRow + block * 8 + i] = byte.x | byte.y << 8 | byte.z << 16 | byte.w << 24;
    sum += code.x + code.y + code.z + code.w;
    if (i % 4 == 3) {
      q.v[row * kRow + kSums + block * 2 + i / 4] = uint(sum - before);
      before = sum;
    }
  }
  precise const float weighted = scale * float(sum);
  q.v[row * kRow + kScales + block] = floatBitsToUint(scale);
  q.v[row * kRow + kWeighted + block] = floatBitsToUint(weighted);
}
