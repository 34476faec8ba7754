//! Vectors as bytes: a scale (f32, little-endian), then eight bits a number.

/// Returns a vector as bytes; none for `None`.
pub(crate) fn pack(vector: Option<&[f32]>) -> Vec<u8> {
    let Some(vector) = vector else {
        return Vec::new();
    };
    let scale = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / 127.0;
    #[expect(clippy::cast_possible_truncation, reason = "between -127 and 127")]
    let number = |x: &f32| {
        if scale > 0.0 {
            (x / scale).round().clamp(-127.0, 127.0) as i8
        } else {
            0
        }
    };
    scale
        .to_le_bytes()
        .into_iter()
        .chain(vector.iter().map(|x| number(x).cast_unsigned()))
        .collect()
}

/// Returns the cosine of a packed vector and `vector`, both of length 1; `None` for no vector or one of another model.
pub(crate) fn cosine(packed: &[u8], vector: &[f32]) -> Option<f32> {
    let (scale, numbers) = packed.split_first_chunk::<4>()?;
    if numbers.len() != vector.len() {
        return None;
    }
    // Eight sums at once, which the compiler keeps in one register.
    let ((eights, rest), (others, other_rest)) =
        (numbers.as_chunks::<8>(), vector.as_chunks::<8>());
    let mut sums = [0.0; 8];
    let product = |(number, x): (&u8, &f32)| f32::from(number.cast_signed()) * x;
    for pair in eights.iter().zip(others) {
        sums.iter_mut()
            .zip(pair.0.iter().zip(pair.1))
            .for_each(|(sum, pair)| *sum += product(pair));
    }
    let rest: f32 = rest.iter().zip(other_rest).map(product).sum();
    Some((sums.iter().sum::<f32>() + rest) * f32::from_le_bytes(*scale))
}

/// Returns a packed vector, with rounded numbers.
pub(crate) fn unpack(packed: &[u8]) -> Option<Vec<f32>> {
    let (scale, numbers) = packed.split_first_chunk::<4>()?;
    let scale = f32::from_le_bytes(*scale);
    Some(
        numbers
            .iter()
            .map(|number| f32::from(number.cast_signed()) * scale)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedding::normalize;

    #[test]
    fn a_vector_of_bytes_is_nearly_the_same() {
        let vector =
            normalize((0..100_u8).map(|x| f32::from(x).sin()).collect()).expect("a vector");
        let packed = pack(Some(&vector));
        assert!((cosine(&packed, &vector).expect("the same model") - 1.0).abs() < 0.01);
        let again = unpack(&packed).expect("a vector");
        assert!(again.iter().zip(&vector).all(|(a, b)| (a - b).abs() < 0.01));
        assert_eq!(
            (
                cosine(&packed, &vector[1..]),
                cosine(&[], &vector),
                unpack(&[])
            ),
            (None, None, None)
        );
        assert_eq!(pack(None), [0_u8; 0]);
    }
}
