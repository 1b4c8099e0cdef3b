"""Conversions between float16 and float32 for processors without instructions for them.

LLVM then calls the compiler's support library, which is not there; these are functions of the names that it calls.
The method is the usual one of integer and float32 arithmetic on the bits: widening scales by 2^112 (exact, also for
subnormal numbers), narrowing rounds to nearest even by an integer carry, or, for subnormal results, by a float32
addition that aligns the last bit. NaN stays a (quiet) NaN.

``BIT_CONVERSIONS`` are the same functions of the bits of a float16, ``@widened`` and ``@narrowed``, for targets whose
code has no type for it.
"""

from __future__ import annotations

from typing import Final

_WIDENING: Final = """\
  %bits = zext i16 %bits16 to i32
  %magnitude = and i32 %bits, 32767
  %sign = and i32 %bits, 32768
  %sign_bit = shl i32 %sign, 16
  %shifted = shl i32 %magnitude, 13
  %small = bitcast i32 %shifted to float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %infinite = or i32 %shifted, 2139095040
  %is_nan = icmp ugt i32 %magnitude, 31744
  %quiet = select i1 %is_nan, i32 4194304, i32 0
  %special = or i32 %infinite, %quiet
  %is_finite = icmp ult i32 %magnitude, 31744
  %result = select i1 %is_finite, i32 %finite, i32 %special
  %signed = or i32 %result, %sign_bit
  %float = bitcast i32 %signed to float
  ret float %float
}
"""

_NARROWING: Final = """\
  %bits = bitcast float %value to i32
  %magnitude = and i32 %bits, 2147483647
  %sign_shifted = lshr i32 %bits, 16
  %sign = and i32 %sign_shifted, 32768
  %last_shifted = lshr i32 %magnitude, 13
  %last = and i32 %last_shifted, 1
  %rebased = add i32 %magnitude, 3355443200
  %half_unit = add i32 %rebased, 4095
  %carried = add i32 %half_unit, %last
  %normal = lshr i32 %carried, 13
  %absolute = bitcast i32 %magnitude to float
  %aligned = fadd float %absolute, 5.000000e-01
  %aligned_bits = bitcast float %aligned to i32
  %subnormal = sub i32 %aligned_bits, 1056964608
  %payload_shifted = lshr i32 %magnitude, 13
  %payload = and i32 %payload_shifted, 1023
  %nan = or i32 %payload, 32256
  %is_subnormal = icmp ult i32 %magnitude, 947912704
  %finite = select i1 %is_subnormal, i32 %subnormal, i32 %normal
  %is_infinite = icmp uge i32 %magnitude, 1199566848
  %bounded = select i1 %is_infinite, i32 31744, i32 %finite
  %is_nan = icmp ugt i32 %magnitude, 2139095040
  %result = select i1 %is_nan, i32 %nan, i32 %bounded
  %signed = or i32 %result, %sign
  %short = trunc i32 %signed to i16
"""

CONVERSIONS: Final = f"""
define weak float @__extendhfsf2(half %value) nounwind {{
  %bits16 = bitcast half %value to i16
{_WIDENING}
define weak half @__truncsfhf2(float %value) nounwind {{
{_NARROWING}  %half = bitcast i16 %short to half
  ret half %half
}}
"""

BIT_CONVERSIONS: Final = f"""
define internal float @widened(i16 %bits16) {{
{_WIDENING}
define internal i16 @narrowed(float %value) {{
{_NARROWING}  ret i16 %short
}}
"""
