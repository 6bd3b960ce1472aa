package javax.annotation;

/** Stands for the annotation of the package javax.annotation-api, with which generated classes are marked. */
public @interface Generated {
    String[] value();

    String date() default "";

    String comments() default "";
}
